#ifndef SANGAM_COMMON_FLAGS_BUILD_LABEL_H_
#define SANGAM_COMMON_FLAGS_BUILD_LABEL_H_

namespace sangam {

// What `bazel build --stamp --embed_label=TEXT` says the program was built from; without --stamp
// "redacted". Defined when a program is linked, so that no library and no test is built anew for
// another label.
extern const char kBuildLabel[];

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_BUILD_LABEL_H_
