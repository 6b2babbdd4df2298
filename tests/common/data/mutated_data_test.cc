// Data files with faults of every kind: opening them must end with data, or with a message that
// names the file or the field; never with a crash, a hang or much memory.

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/data/data_root.h"
#include "common/data/job_data.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "tests/common/data/data_files.h"
#include "tests/testing/idx_bytes.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using Random = std::mt19937;  // the same numbers everywhere, unlike the standard's distributions

constexpr uint64_t kMaxMemory = uint64_t{64} << 20;

// A format's job and the files that it reads.
struct Format {
  std::string name;
  std::string data;  // DataSpec
  std::vector<std::pair<std::string, std::string>> files;
  uint64_t inputs = 1;
  uint64_t outputs = 10;
  uint64_t terms = 1;
};

std::vector<Format> Formats() {
  std::string pixels;
  for (int i = 0; i < 20 * 4; ++i) pixels.push_back(static_cast<char>(37 * i));
  std::string classes;
  for (int i = 0; i < 20; ++i) classes.push_back(static_cast<char>(i % 10));
  std::string cifar;
  for (int i = 0; i < 3; ++i) {
    cifar += static_cast<char>(i);
    cifar += std::string(3072, static_cast<char>(i * 80));
  }
  std::string csv = "a,\"b \"\"x\"\"\",label\r\n";
  std::string svm = "# comment\n";
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&csv, i * 0.25, ",\"", i, "\",", i % 10, "\r\n");
    absl::StrAppend(&svm, i % 10, " 1:", i, " 3:-", i, ".5e-1 # x\n");
  }
  std::vector<float> numbers;
  for (int i = 0; i < 20 * 4; ++i) numbers.push_back(static_cast<float>(i) / 7);
  const std::string npy = testing::NpyBytes("<f4", "(20, 2, 2)", testing::Items(numbers));
  const std::string fortran = testing::NpyBytes(
      "{'descr': '>u2', 'fortran_order': True, 'shape': (20, 4), }", std::string(160, '\1'), 2);
  const std::string labels = testing::NpyBytes("|u1", "(20,)", classes);
  std::string tokens;
  for (int i = 0; i < 64; ++i) tokens += {static_cast<char>(i % 10), '\0'};
  const std::string idx = "idx { train_images: 'a' train_labels: 'b' }";
  const std::string arrays = "npy { train_inputs: 'a' train_labels: 'b' }";
  const std::string images = testing::IdxBytes(0x803, {20, 2, 2}, pixels);
  const std::string image_labels = testing::IdxBytes(0x801, {20}, classes);
  return {
      {"idx", idx, {{"a", images}, {"b", image_labels}}, 4},
      {"idx gzipped", idx, {{"a", testing::Gzip(images)}, {"b", testing::Gzip(image_labels)}}, 4},
      {"cifar", "cifar { train: 'a' }", {{"a", cifar}}, 3072},
      {"cifar gzipped", "cifar { train: 'a' }", {{"a", testing::Gzip(cifar)}}, 3072},
      {"npy", arrays, {{"a", npy}, {"b", labels}}, 4},
      {"npy fortran", arrays + "standardize: true", {{"a", fortran}, {"b", labels}}, 4},
      {"npy gzipped", arrays, {{"a", testing::Gzip(npy)}, {"b", testing::Gzip(labels)}}, 4},
      {"csv", "csv { train: 'a' label: 'label' }", {{"a", csv}}, 2},
      {"csv mean",
       "csv { train: 'a' label: '2' missing: COLUMN_MEAN } standardize: true",
       {{"a", csv}},
       2},
      {"libsvm", "libsvm { train: 'a' }", {{"a", svm}}, 4},
      {"libsvm gzipped", "libsvm { train: 'a' }", {{"a", testing::Gzip(svm)}}, 4},
      {"tokens", "tokens { train: 'a' }", {{"a", tokens}}, 4, 40, 4},
      {"text", "text { train: 'a' }", {{"a", std::string(40, '\7')}}, 4, 40, 4},
  };
}

// One fault.
void Mutate(Random* random, std::string* bytes) {
  const auto below = [random](size_t size) { return size == 0 ? 0 : (*random)() % size; };
  switch (below(8)) {
    case 0:  // cut
      bytes->resize(below(bytes->size()));
      break;
    case 1:  // a bit flipped
      if (!bytes->empty()) (*bytes)[below(bytes->size())] ^= static_cast<char>(1 << below(8));
      break;
    case 2:  // a byte of the beginning replaced: headers lie
      if (!bytes->empty()) {
        (*bytes)[below(std::min<size_t>(bytes->size(), 100))] = static_cast<char>(below(256));
      }
      break;
    case 3:  // grown
      bytes->append(1 + below(5000), static_cast<char>(below(256)));
      break;
    case 4: {  // a piece taken out
      const size_t at = below(bytes->size());
      bytes->erase(at, 1 + below(20));
      break;
    }
    case 5: {  // a piece twice
      const size_t at = below(bytes->size());
      bytes->insert(at, bytes->substr(at, 1 + below(200)));
      break;
    }
    case 6: {  // text where numbers stood, or the other way round
      const std::string extremes[] = {"1e400",
                                      "-nan",
                                      "99999999999999999999",
                                      "\"",
                                      ",,",
                                      "\n\n",
                                      std::string("\xff\xff\xff\xff", 4),
                                      std::string(8, '\0'),
                                      "-1:",
                                      "1e-400",
                                      "(4294967296,",
                                      "'|O'"};
      bytes->insert(below(bytes->size() + 1), extremes[below(std::size(extremes))]);
      break;
    }
    default:  // four bytes replaced
      for (int i = 0; i < 4 && !bytes->empty(); ++i) {
        (*bytes)[below(bytes->size())] = static_cast<char>(below(256));
      }
  }
}

class MutatedDataTest : public ::testing::Test {
 protected:
  MutatedDataTest()
      : folder_(testing::FreshFolder("mutated_data")), root_(*DataRoot::Create(folder_)) {}

  absl::StatusOr<JobData> Open(const Format& format) const {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("evaluation { off: true } model { input_shape: ", format.inputs,
                     " } loss { softmax_cross_entropy {} } data { ", format.data, " }"),
        &spec));
    v1::ModelLayout layout;
    layout.set_terms_per_sample(format.terms);
    layout.add_block()->add_output_shape(format.outputs);
    JobDataOptions options;
    options.root = &root_;
    options.max_memory_bytes = kMaxMemory;
    return OpenJobData(spec, layout, options);
  }
  void Write(const std::string& name, const std::string& content) const {
    testing::WriteFile(absl::StrCat(folder_, "/", name), content);
  }

  const std::string folder_;
  const DataRoot root_;
};

TEST_F(MutatedDataTest, EveryFormatIsGoodAtFirst) {
  for (const Format& format : Formats()) {
    for (const auto& [name, content] : format.files) Write(name, content);
    const auto data = Open(format);
    EXPECT_TRUE(data.ok()) << format.name << ": " << data.status();
  }
}

TEST_F(MutatedDataTest, FaultyFilesGiveDataOrAMessageThatNamesThem) {
  constexpr int kFilesOfEach = 40;
  Random random(20240607);
  int refused = 0;
  int files = 0;
  for (const Format& format : Formats()) {
    for (int i = 0; i < kFilesOfEach; ++i, ++files) {
      const size_t victim = random() % format.files.size();
      for (size_t f = 0; f < format.files.size(); ++f) {
        std::string content = format.files[f].second;
        const uint32_t faults = f == victim ? 1 + random() % 3 : 0;
        for (uint32_t m = 0; m < faults; ++m) Mutate(&random, &content);
        Write(format.files[f].first, content);
      }
      SCOPED_TRACE(absl::StrCat(format.name, " ", i));
      const auto data = Open(format);
      if (data.ok()) {
        EXPECT_LE(data->memory_bytes(), kMaxMemory);
        const uint64_t last = data->train->num_samples() - 1;
        EXPECT_FALSE(testing::InputsOf(*data->train, last).empty());
        EXPECT_FALSE(testing::LabelsOf(*data->train, last).empty());
        continue;
      }
      ++refused;
      EXPECT_NE(data.status().code(), absl::StatusCode::kInternal);
      const std::string message(data.status().message());
      const bool named = absl::StrContains(message, "a:") || absl::StrContains(message, "b:") ||
                         absl::StrContains(message, " a ") || absl::StartsWith(message, "data.");
      EXPECT_TRUE(named) << message;
    }
  }
  EXPECT_GE(files, 500);
  EXPECT_GT(refused, files / 3);
  // In KiB; the files themselves are small.
  rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1024 * 1024);
}

}  // namespace
}  // namespace sangam
