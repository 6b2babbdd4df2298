#include "common/data/set_files.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/data/data_root.h"
#include "common/data/file_pattern.h"
#include "common/data/input_file.h"
#include "google/protobuf/repeated_field.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using Patterns = google::protobuf::RepeatedPtrField<std::string>;

std::vector<std::string> PathOrNone(const std::string& path) {
  return path.empty() ? std::vector<std::string>{} : std::vector<std::string>{path};
}

SetFiles OfPaths(const std::string& field, const char* inputs, const std::string& samples,
                 const std::string& labels) {
  SetFiles set;
  set.samples_field = absl::StrCat(field, "_", inputs);
  set.labels_field = absl::StrCat(field, "_labels");
  set.samples = PathOrNone(samples);
  set.labels = PathOrNone(labels);
  return set;
}

SetFiles OfPatterns(const std::string& field, const Patterns& patterns) {
  SetFiles set;
  set.samples_field = field;
  set.labels_field = field;
  set.samples.assign(patterns.begin(), patterns.end());
  set.patterns = true;
  return set;
}

std::string FirstOf(const std::vector<std::string>& paths) {
  return paths.empty() ? "" : absl::StrCat(": ", paths.front());
}

}  // namespace

std::string SetFiles::samples_name() const { return absl::StrCat(samples_field, FirstOf(samples)); }

std::string SetFiles::labels_name() const {
  return absl::StrCat(labels_field, FirstOf(patterns ? samples : labels));
}

absl::StatusOr<SetFiles> NameSet(const v1::DataSpec& data, bool test) {
  const char* const name = test ? "test" : "train";
  const auto field = [name](const char* kind) { return absl::StrCat("data.", kind, ".", name); };
  switch (data.kind_case()) {
    case v1::DataSpec::kIdx:
      return OfPaths(field("idx"), "images",
                     test ? data.idx().test_images() : data.idx().train_images(),
                     test ? data.idx().test_labels() : data.idx().train_labels());
    case v1::DataSpec::kNpy:
      return OfPaths(field("npy"), "inputs",
                     test ? data.npy().test_inputs() : data.npy().train_inputs(),
                     test ? data.npy().test_labels() : data.npy().train_labels());
    case v1::DataSpec::kText:
      return OfPatterns(field("text"), test ? data.text().test() : data.text().train());
    case v1::DataSpec::kTokens:
      return OfPatterns(field("tokens"), test ? data.tokens().test() : data.tokens().train());
    case v1::DataSpec::kCifar:
      return OfPatterns(field("cifar"), test ? data.cifar().test() : data.cifar().train());
    case v1::DataSpec::kCsv:
      return OfPatterns(field("csv"), test ? data.csv().test() : data.csv().train());
    case v1::DataSpec::kLibsvm:
      return OfPatterns(field("libsvm"), test ? data.libsvm().test() : data.libsvm().train());
    case v1::DataSpec::kSynthetic: {
      SetFiles set;
      set.samples_field = absl::StrCat(field("synthetic"), "_samples");
      set.labels_field = "data.synthetic";
      return set;
    }
    case v1::DataSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: found no kind of data, expected idx, text, tokens, cifar, npy, csv, libsvm or "
      "synthetic");
}

absl::StatusOr<NamedFile> FindFile(const DataRoot& root, const std::vector<std::string>& path,
                                   const std::string& field) {
  const std::string relative = path.empty() ? "" : path.front();
  ASSIGN_OR_RETURN(std::string real, root.Resolve(relative), "%s", field);
  return NamedFile{std::move(real), relative};
}

absl::StatusOr<std::vector<NamedFile>> FindSet(const DataRoot& root, const SetFiles& set,
                                               const std::atomic<bool>* cancelled) {
  if (set.samples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(set.samples_field, ": found nothing, expected at least one pattern"));
  }
  std::vector<NamedFile> files;
  for (size_t p = 0; p < set.samples.size(); ++p) {
    ASSIGN_OR_RETURN(std::vector<NamedFile> found, FindFiles(root, set.samples[p], cancelled),
                     "%s[%d]", set.samples_field, p);
    for (NamedFile& file : found) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const NamedFile& a, const NamedFile& b) { return a.name < b.name; });
  files.erase(std::unique(files.begin(), files.end(),
                          [](const NamedFile& a, const NamedFile& b) { return a.name == b.name; }),
              files.end());
  return files;
}

}  // namespace sangam
