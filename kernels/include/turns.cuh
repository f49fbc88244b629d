// Two warp groups, 0 and 1, that take turns: what one does between `take` and `pass`, the other does not begin
// meanwhile.
#pragma once

namespace turns {

// bar.sync on the group's own barrier: until the other group has passed the turn on.
__device__ __forceinline__ void take(int group) {
    if (group == 0) {
        asm volatile("bar.sync 1, 256;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 256;" ::: "memory");
    }
}

// bar.arrive on the other group's.
__device__ __forceinline__ void pass(int group) {
    if (group == 0) {
        asm volatile("bar.arrive 2, 256;" ::: "memory");
    } else {
        asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
}

}  // namespace turns
