// NVRTC needs no GPU: the real library compiles. In place of machine code it gives the PTX, which is what is emulated.
#include <dlfcn.h>
#include <stdlib.h>

#include <sstream>
#include <string>

static void* real(const char* name) {
    static void* const library = [] {
        Dl_info own;
        dladdr(reinterpret_cast<void*>(real), &own);
        const std::string path = own.dli_fname, file = path.substr(path.rfind('/'));
        const char* folders = getenv("LD_LIBRARY_PATH");
        std::istringstream list(folders ? folders : "");
        for (std::string folder; std::getline(list, folder, ':');)
            if (folder + file != path)
                if (void* found = dlopen((folder + file).c_str(), RTLD_NOW)) return found;
        return static_cast<void*>(nullptr);
    }();
    return library ? dlsym(library, name) : nullptr;
}

#define OF(name, there)                                                                                             \
    extern "C" __attribute__((visibility("default"))) long name(long a, long b, long c, long d, long e, long f) {   \
        static auto* const call = reinterpret_cast<decltype(&name)>(real(#there));                                  \
        return call ? call(a, b, c, d, e, f) : 11; /* NVRTC_ERROR_INTERNAL_ERROR */                                 \
    }
#define AS_IT_IS(name) OF(name, name)
OF(nvrtcGetCUBINSize, nvrtcGetPTXSize)
OF(nvrtcGetCUBIN, nvrtcGetPTX)
AS_IT_IS(nvrtcGetErrorString) AS_IT_IS(nvrtcVersion) AS_IT_IS(nvrtcGetNumSupportedArchs) AS_IT_IS(nvrtcGetSupportedArchs)
AS_IT_IS(nvrtcCreateProgram) AS_IT_IS(nvrtcDestroyProgram) AS_IT_IS(nvrtcCompileProgram) AS_IT_IS(nvrtcGetPTXSize)
AS_IT_IS(nvrtcGetPTX) AS_IT_IS(nvrtcGetLTOIRSize) AS_IT_IS(nvrtcGetLTOIR) AS_IT_IS(nvrtcGetOptiXIRSize)
AS_IT_IS(nvrtcGetOptiXIR) AS_IT_IS(nvrtcGetProgramLogSize) AS_IT_IS(nvrtcGetProgramLog) AS_IT_IS(nvrtcAddNameExpression)
AS_IT_IS(nvrtcGetLoweredName) AS_IT_IS(nvrtcGetPCHHeapSize) AS_IT_IS(nvrtcSetPCHHeapSize) AS_IT_IS(nvrtcGetPCHCreateStatus)
AS_IT_IS(nvrtcGetPCHHeapSizeRequired) AS_IT_IS(nvrtcSetFlowCallback)
