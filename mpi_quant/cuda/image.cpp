#include "mpi_quant/cuda/image.hpp"

// The build sets the file name in MQ_DEVICE_IMAGE. Aligned to 64 bytes, because the driver reads a fat binary
// in place.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".global mq_device_image_bytes\n"
    ".hidden mq_device_image_bytes\n"
    ".type mq_device_image_bytes, %object\n"
    "mq_device_image_bytes:\n"
    ".incbin \"" MQ_DEVICE_IMAGE
    "\"\n"
    ".byte 0\n"
    ".size mq_device_image_bytes, . - mq_device_image_bytes\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const unsigned char mq_device_image_bytes[];

namespace mq::cuda {

const void* image() noexcept { return mq_device_image_bytes; }

}  // namespace mq::cuda
