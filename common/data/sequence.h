#ifndef SANGAM_COMMON_DATA_SEQUENCE_H_
#define SANGAM_COMMON_DATA_SEQUENCE_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "common/data/token_store.h"

namespace sangam {

// Files one after another as one sequence of tokens, cut into samples of T positions: sample i has
// the tokens [i * T, i * T + T), and its labels are the tokens that follow each of them. What is
// left over at the end is not used. Tokens stay in memory as they are in the files; read, they are
// floats, which hold them exactly. Each file may be gzipped.
class SequenceDataset : public Dataset {
 public:
  enum class Format {
    kBytes,   // text: every byte is a token
    kTokens,  // little-endian 16-bit numbers; a file may begin with llm.c's header of 256
              // little-endian 32-bit numbers: 20240520, version 1, number of tokens, then unused
  };
  struct Options {
    Format format = Format::kBytes;
    // At least one, in the order of the sequence.
    std::vector<NamedFile> files;
    // T, at least 1.
    uint64_t positions = 1;
    // Refuses data that would need more memory.
    uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
    // When it becomes true, Open ends soon with Cancelled. May be nullptr.
    const std::atomic<bool>* cancelled = nullptr;
  };

  // Reads all files. Every message names the file, what was found and expected.
  // Errors: InvalidArgument    half a token at the end of a file; a header of another version, or
  //                            one that contradicts the file; not enough for one sample
  //         DataLoss           a file ends within the header, or is damaged
  //         ResourceExhausted  more memory is needed than allowed, or than can be had
  //         Cancelled          `cancelled` became true
  //         others             see InputFile::Open
  static absl::StatusOr<std::unique_ptr<SequenceDataset>> Open(const Options& options);

  uint64_t num_samples() const override { return (tokens_.size() - 1) / positions_; }
  const std::vector<uint64_t>& sample_shape() const override { return sample_shape_; }
  uint64_t sample_elements() const override { return positions_; }
  uint64_t labels_per_sample() const override { return positions_; }
  uint32_t num_classes() const override { return num_classes_; }
  uint64_t memory_bytes() const override { return tokens_.num_bytes(); }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override;

 private:
  SequenceDataset(uint64_t positions, TokenStore tokens, uint32_t num_classes);

  const uint64_t positions_;
  const std::vector<uint64_t> sample_shape_;
  const TokenStore tokens_;
  const uint32_t num_classes_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_SEQUENCE_H_
