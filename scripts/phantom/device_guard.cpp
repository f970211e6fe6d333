// A device guard that does nothing, for "cuda" on a torch that was built without CUDA: the class is torch's, its registration is missing.
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace {
C10_REGISTER_GUARD_IMPL(CUDA, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>);
}
