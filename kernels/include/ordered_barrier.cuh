// Two warp groups, 0 and 1, that execute a section in alternation: between `wait` and `arrive` of one group the other
// does not enter the section. Both groups use the named barriers 1 and 2, each of 256 threads: the group that waits on
// it and the group that arrives.
#pragma once

namespace ordered_barrier {

// bar.sync on the group's own barrier: until the other group has arrived there.
__device__ __forceinline__ void wait(int group) {
    if (group == 0) {
        asm volatile("bar.sync 1, 256;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 256;" ::: "memory");
    }
}

// bar.arrive on the other group's barrier: lets it enter, without waiting for it.
__device__ __forceinline__ void arrive(int group) {
    if (group == 0) {
        asm volatile("bar.arrive 2, 256;" ::: "memory");
    } else {
        asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
}

}  // namespace ordered_barrier
