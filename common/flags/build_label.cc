// Compiled as a program is linked, with what Bazel knows of the build as macros.

#ifndef BUILD_EMBED_LABEL
#define BUILD_EMBED_LABEL ""
#endif

namespace sangam {

extern const char kBuildLabel[];
const char kBuildLabel[] = BUILD_EMBED_LABEL;

}  // namespace sangam
