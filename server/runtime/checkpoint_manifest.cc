#include "server/runtime/checkpoint_manifest.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "xxhash.h"

namespace sangam {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFormat = 1;

// Deeper ones are no manifests, and to walk them takes a stack as deep.
constexpr int kMaxDepth = 200;

bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string Hex(uint64_t value) { return absl::StrFormat("%016x", value); }

std::string ChecksumOf(const Json& content) {
  const std::string text = content.dump();
  return Hex(XXH3_64bits(text.data(), text.size()));
}

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("MANIFEST: ", what));
}

absl::StatusOr<uint64_t> Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) {
    return Bad(absl::StrCat(key, ": expected a whole number"));
  }
  return found->get<uint64_t>();
}

absl::StatusOr<std::string> Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return Bad(absl::StrCat(key, ": expected a text"));
  }
  return found->get<std::string>();
}

absl::StatusOr<uint64_t> Hash(const Json& value) {
  uint64_t hash = 0;
  if (!value.is_string() || !absl::SimpleHexAtoi(value.get<std::string>(), &hash)) {
    return Bad("expected a checksum of 16 hex digits");
  }
  return hash;
}

absl::StatusOr<const Json*> List(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) {
    return Bad(absl::StrCat(key, ": expected a list"));
  }
  return &*found;
}

absl::StatusOr<CheckpointFile> FileOf(const Json& object) {
  if (!object.is_object()) return Bad("files: expected objects");
  CheckpointFile file;
  ASSIGN_OR_RETURN(file.name, Text(object, "name"));
  ASSIGN_OR_RETURN(file.bytes, Number(object, "bytes"));
  ASSIGN_OR_RETURN(const Json* const checksums, List(object, "xxh3"));
  for (const Json& checksum : *checksums) {
    ASSIGN_OR_RETURN(const uint64_t hash, Hash(checksum), "%s", file.name);
    file.checksums.push_back(hash);
  }
  const uint64_t blocks = (file.bytes + kCheckpointBlockBytes - 1) / kCheckpointBlockBytes;
  if (file.checksums.size() == blocks) return file;
  return Bad(
      absl::StrCat(file.name, ": found ", file.checksums.size(), " checksums, expected ", blocks));
}

absl::StatusOr<CheckpointManifest> ManifestOf(const Json& content) {
  ASSIGN_OR_RETURN(const uint64_t format, Number(content, "format"));
  if (format != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("MANIFEST: format: found ", format, ", expected ", kFormat));
  }
  CheckpointManifest manifest;
  ASSIGN_OR_RETURN(manifest.job, Number(content, "job"));
  ASSIGN_OR_RETURN(manifest.step, Number(content, "step"));
  ASSIGN_OR_RETURN(manifest.updates, Number(content, "updates"));
  ASSIGN_OR_RETURN(manifest.samples, Number(content, "samples"));
  ASSIGN_OR_RETURN(manifest.train_samples, Number(content, "train_samples"));
  ASSIGN_OR_RETURN(const uint64_t time_us, Number(content, "time_us"));
  manifest.time = absl::FromUnixMicros(static_cast<int64_t>(time_us));
  ASSIGN_OR_RETURN(manifest.layout_hash, Hash(content.value("layout", Json())));
  if (const auto kind = content.find("worker_kind"); kind != content.end()) {
    if (!kind->is_string()) return Bad("worker_kind: expected a string");
    manifest.worker_kind = kind->get<std::string>();
  }
  if (const auto owner = content.find("owner"); owner != content.end()) {
    if (!owner->is_string()) return Bad("owner: expected a string");
    manifest.owner = owner->get<std::string>();
  }
  ASSIGN_OR_RETURN(const Json* const states, List(content, "state"));
  for (const Json& state : *states) {
    if (!state.is_string()) return Bad("state: expected texts");
    manifest.state_names.push_back(state.get<std::string>());
  }
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      content.value("spec", Json::object()).dump(), &manifest.spec);
  if (!parsed.ok()) return Bad(absl::StrCat("spec: ", std::string(parsed.message())));
  ASSIGN_OR_RETURN(const Json* const files, List(content, "files"));
  for (const Json& object : *files) {
    ASSIGN_OR_RETURN(CheckpointFile file, FileOf(object));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

uint64_t CheckpointManifest::bytes() const {
  uint64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

uint64_t LayoutHash(const v1::ModelLayout& layout) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    layout.SerializeToCodedStream(&coded);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::StatusOr<std::string> EncodeManifest(const CheckpointManifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string spec;
  const auto printed = google::protobuf::util::MessageToJsonString(manifest.spec, &spec, options);
  if (!printed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job as JSON: ", std::string(printed.message())));
  }
  Json content;
  content["format"] = kFormat;
  content["job"] = manifest.job;
  content["job_name"] = manifest.spec.name();
  content["step"] = manifest.step;
  content["updates"] = manifest.updates;
  content["samples"] = manifest.samples;
  content["train_samples"] = manifest.train_samples;
  content["time_us"] = static_cast<uint64_t>(absl::ToUnixMicros(manifest.time));
  content["layout"] = Hex(manifest.layout_hash);
  if (!manifest.worker_kind.empty()) content["worker_kind"] = manifest.worker_kind;
  if (!manifest.owner.empty()) content["owner"] = manifest.owner;
  content["state"] = manifest.state_names;
  content["spec"] = Json::parse(spec);
  content["files"] = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    Json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.bytes;
    entry["xxh3"] = Json::array();
    for (const uint64_t checksum : file.checksums) entry["xxh3"].push_back(Hex(checksum));
    content["files"].push_back(std::move(entry));
  }
  Json whole;
  whole["checksum"] = ChecksumOf(content);
  whole["content"] = std::move(content);
  return absl::StrCat(whole.dump(1), "\n");
}

absl::StatusOr<CheckpointManifest> DecodeManifest(absl::string_view text) {
  if (IsTooDeep(text)) {
    return Bad(absl::StrCat("found more than ", kMaxDepth, " values within one another"));
  }
  const Json whole = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains("content") || !whole["content"].is_object()) {
    return Bad(absl::StrCat("found ", text.size(), " bytes, expected JSON with 'content'"));
  }
  ASSIGN_OR_RETURN(const std::string expected, Text(whole, "checksum"));
  const std::string found = ChecksumOf(whole["content"]);
  if (found != expected) {
    return Bad(absl::StrCat("checksum of its content: found ", found, ", expected ", expected));
  }
  return ManifestOf(whole["content"]);
}

absl::Status CheckBlock(const CheckpointFile& file, uint64_t index, absl::string_view bytes) {
  const uint64_t found = XXH3_64bits(bytes.data(), bytes.size());
  const uint64_t expected = index < file.checksums.size() ? file.checksums[index] : 0;
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.name, ", offset ", index * kCheckpointBlockBytes,
                                          ": checksum of ", bytes.size(), " bytes: found ",
                                          Hex(found), ", expected ", Hex(expected)));
}

}  // namespace sangam
