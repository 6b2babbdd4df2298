#include "common/data/npy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/data/input_file.h"
#include "common/data/npy_header.h"
#include "common/data/read_options.h"
#include "common/data/table.h"

namespace sangam {
namespace {

// Between two looks at `cancelled`. A multiple of every item's size.
constexpr size_t kReadBytes = size_t{256} * 1024;

struct OpenNpy {
  std::unique_ptr<InputFile> file;
  NpyHeader header;
  std::vector<uint64_t> shape;  // of one sample, at least {1}
  uint64_t elements = 1;        // their product
};

absl::StatusOr<OpenNpy> OpenArray(const NamedFile& named) {
  OpenNpy array;
  ASSIGN_OR_RETURN(array.file, InputFile::Open(named.path, named.name));
  ASSIGN_OR_RETURN(array.header, ReadNpyHeader(array.file.get()));
  array.shape.assign(array.header.shape.begin() + 1, array.header.shape.end());
  if (array.shape.empty()) array.shape = {1};
  array.elements = array.header.items / array.header.shape[0];
  return array;
}

// Where the next item of an array stands: which sample, and which element of it in row-major order.
class Position {
 public:
  explicit Position(const OpenNpy& array)
      : fortran_(array.header.fortran_order),
        samples_(array.header.shape[0]),
        elements_(array.elements),
        shape_(array.shape),
        index_(array.shape.size(), 0) {}

  uint64_t sample() const { return sample_; }
  uint64_t element() const { return element_; }

  void Advance() {
    if (!fortran_) {
      if (++element_ == elements_) {
        element_ = 0;
        ++sample_;
      }
      return;
    }
    if (++sample_ < samples_) return;
    sample_ = 0;
    for (size_t d = 0; d < shape_.size() && ++index_[d] == shape_[d]; ++d) index_[d] = 0;
    element_ = 0;
    for (size_t d = 0; d < shape_.size(); ++d) element_ = element_ * shape_[d] + index_[d];
  }
  // "[sample, ...]" as NumPy would index it.
  std::string text() const {
    std::vector<uint64_t> index = {sample_};
    uint64_t rest = element_;
    uint64_t size = elements_;
    for (const uint64_t d : shape_) {
      size /= d;
      index.push_back(rest / size);
      rest %= size;
    }
    return absl::StrCat("[", absl::StrJoin(index, ", "), "]");
  }

 private:
  const bool fortran_;
  const uint64_t samples_;
  const uint64_t elements_;
  const std::vector<uint64_t> shape_;
  std::vector<uint64_t> index_;
  uint64_t sample_ = 0;
  uint64_t element_ = 0;
};

// Gives every item to `take(sample, element, value)`, which is false when it breaks the rules.
template <typename Take>
absl::Status ReadItems(OpenNpy* array, const ReadOptions& options, const std::string& expected,
                       const Take& take) {
  InputFile& file = *array->file;
  const uint32_t item_bytes = array->header.item_bytes;
  std::vector<uint8_t> buffer(kReadBytes);
  Position position(*array);
  uint64_t left = array->header.items;
  while (left > 0) {
    RETURN_IF_ERROR(options.CheckCancelled(file.name()));
    const uint64_t count = std::min<uint64_t>(left, buffer.size() / item_bytes);
    const uint64_t offset = file.offset();
    RETURN_IF_ERROR(file.Read(count * item_bytes, buffer.data()));
    for (uint64_t i = 0; i < count; ++i, position.Advance()) {
      const double value = NpyItem(array->header, buffer.data() + i * item_bytes);
      if (take(position.sample(), position.element(), value)) continue;
      return absl::InvalidArgumentError(absl::StrCat(file.name(), ": item ", position.text(),
                                                     " at offset ", offset + i * item_bytes,
                                                     ": found ", value, ", expected ", expected));
    }
    left -= count;
  }
  return file.ExpectEnd();
}

}  // namespace

absl::StatusOr<NpyData> ReadNpy(const NamedFile& inputs, const NamedFile& labels,
                                const ReadOptions& options) {
  ASSIGN_OR_RETURN(OpenNpy input, OpenArray(inputs));
  ASSIGN_OR_RETURN(OpenNpy label, OpenArray(labels));
  const uint64_t samples = input.header.shape[0];
  if (label.header.shape[0] != samples) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels.name, ": shape: found ", label.header.shape[0], " labels, expected ",
                     samples, ", the number of samples in ", inputs.name));
  }
  ASSIGN_OR_RETURN(Table table,
                   Table::Create(input.elements, label.elements, options.max_memory_bytes), "%s",
                   inputs.name);
  RETURN_IF_ERROR(table.CheckRoom(samples), "%s and %s", inputs.name, labels.name);
  for (uint64_t s = 0; s < samples; ++s) {
    RETURN_IF_ERROR(table.Add().status(), "%s", inputs.name);
  }
  const SampleRules& rules = options.rules;
  RETURN_IF_ERROR(ReadItems(&label, options, rules.expected_label(),
                            [&](uint64_t sample, uint64_t element, double value) {
                              return rules.TakeLabel(value, table.At(sample).labels + element);
                            }));
  RETURN_IF_ERROR(ReadItems(&input, options, rules.expected_input(),
                            [&](uint64_t sample, uint64_t element, double value) {
                              return rules.TakeInput(value, table.At(sample).inputs + element);
                            }));
  return NpyData{std::move(table), input.shape};
}

}  // namespace sangam
