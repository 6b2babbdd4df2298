#ifndef SANGAM_COMMON_DATA_AUGMENTATION_H_
#define SANGAM_COMMON_DATA_AUGMENTATION_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace sangam {

// Changes training images at random: a crop out of the image with zeros around it, and a mirror
// image in half of the cases. What becomes of an image depends on (seed, epoch, sample) alone, so
// whoever reads it gets the same bits. A value; immutable.
class Augmentation {
 public:
  struct Options {
    uint64_t seed = 0;
    // Of an image [height, width, channels], the channels of a pixel side by side; all > 0.
    uint64_t height = 1;
    uint64_t width = 1;
    uint64_t channels = 1;
    uint32_t crop_padding = 0;
    bool horizontal_flip = false;
    // What a zero pixel became by normalisation, for each channel.
    std::vector<float> zero;
  };
  // REQUIRES: zero.size() is channels.
  explicit Augmentation(Options options);

  // `image` and `changed` have height * width * channels numbers each and do not overlap.
  void Apply(uint64_t epoch, uint64_t sample, const float* image, float* changed) const;

 private:
  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_AUGMENTATION_H_
