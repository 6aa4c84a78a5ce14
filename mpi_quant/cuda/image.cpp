#include "mpi_quant/cuda/image.hpp"

// The build sets the file names. Aligned to 64 bytes, because the driver reads a fat binary in place.
#define MQ_INCLUDE_BYTES(name, file)     \
  asm(".pushsection .rodata\n"           \
      ".balign 64\n"                     \
      ".global " #name                   \
      "\n"                               \
      ".hidden " #name                   \
      "\n"                               \
      ".type " #name ", %object\n" #name \
      ":\n"                              \
      ".incbin \"" file                  \
      "\"\n"                             \
      ".byte 0\n"                        \
      ".size " #name ", . - " #name      \
      "\n"                               \
      ".popsection\n");                  \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char name[];

MQ_INCLUDE_BYTES(mq_device_image_bytes, MQ_DEVICE_IMAGE)
MQ_INCLUDE_BYTES(mq_device_ptx_bytes, MQ_DEVICE_PTX)

namespace mq::cuda {

const void* image() noexcept { return mq_device_image_bytes; }
const void* ptx() noexcept { return mq_device_ptx_bytes; }

}  // namespace mq::cuda
