// Where this binary came from; generated at build time.
#pragma once

namespace mq::bench {

struct BuildInfo {
  const char* version;
  const char* git_commit;  // "" if built outside a git work tree
  bool git_dirty;          // the work tree differed from that commit
  const char* build_type;
  const char* compiler;
  const char* flags;  // of the build type; cmake/mpiq_compile.cmake adds the same flags to every build
};

const BuildInfo& build_info();

}  // namespace mq::bench
