#ifndef SANGAM_SERVER_CORE_CHECKPOINT_LAYOUT_H_
#define SANGAM_SERVER_CORE_CHECKPOINT_LAYOUT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"

namespace sangam {

// Where each number of a model's state lies in the files of a checkpoint, both in the safetensors
// format: weights.safetensors has the parameters by their names; optimizer.safetensors the
// optimizer's state, "<parameter>.<name of the state>", of the parameter's shape. Does not depend
// on pages or servers, so any number of them can write and read it. Immutable.
class CheckpointLayout {
 public:
  static constexpr size_t kFiles = 2;
  static constexpr std::array<const char*, kFiles> kFileNames = {"weights.safetensors",
                                                                 "optimizer.safetensors"};

  // Consecutive numbers of one array of a range of a segment, in a file.
  struct Piece {
    size_t file = 0;      // index into kFileNames
    uint64_t offset = 0;  // of the first byte, in the file
    uint32_t array = 0;   // 0: the weights; i: state i - 1 of the optimizer
    uint64_t first = 0;   // element, counted from the beginning of the range
    uint64_t count = 0;   // elements
  };

  // `state_names`: of the optimizer's arrays, in their order.
  // Errors: InvalidArgument  the layout contradicts itself, or two names are the same
  static absl::StatusOr<CheckpointLayout> Create(const v1::ModelLayout& layout,
                                                 const std::vector<std::string>& state_names);

  // The file's first bytes; what follows are the pieces, without gaps.
  const std::string& header(size_t file) const { return headers_[file]; }
  // In bytes.
  uint64_t file_size(size_t file) const { return sizes_[file]; }
  // Weights and the optimizer's state.
  uint32_t num_arrays() const { return num_arrays_; }
  // Of all segments together.
  uint64_t num_elements() const { return num_elements_; }

  // The pieces of elements [first, first + count) of a segment, by array and element.
  // Errors: InvalidArgument  not within the segment
  absl::StatusOr<std::vector<Piece>> Pieces(uint32_t segment, uint64_t first, uint64_t count) const;

 private:
  struct Parameter {
    uint64_t begin = 0;  // elements of the segment
    uint64_t end = 0;
    std::vector<uint64_t> offset;  // by array
  };

  CheckpointLayout() = default;

  std::array<std::string, kFiles> headers_;
  std::array<uint64_t, kFiles> sizes_ = {};
  uint32_t num_arrays_ = 1;
  uint64_t num_elements_ = 0;
  std::vector<std::vector<Parameter>> segments_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_CHECKPOINT_LAYOUT_H_
