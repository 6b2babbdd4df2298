#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/checks.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

class Passed : public BackendEvent {
 public:
  absl::Status Wait() const override { return absl::OkStatus(); }
};

}  // namespace

absl::Status Backend::Upload(const float* host, Matrix to) {
  RETURN_IF_ERROR(CheckView("upload", "to", to));
  RETURN_IF_ERROR(CheckHostPointer("upload", host, to));
  return to.size() == 0 ? absl::OkStatus() : DoUpload(host, to);
}

absl::Status Backend::Download(ConstMatrix from, float* host) {
  RETURN_IF_ERROR(CheckView("download", "from", from));
  RETURN_IF_ERROR(CheckHostPointer("download", host, from));
  return from.size() == 0 ? absl::OkStatus() : DoDownload(from, host);
}

absl::StatusOr<std::unique_ptr<BackendEvent>> Backend::Record() {
  return std::make_unique<Passed>();
}

absl::Status Backend::WaitFor(const BackendEvent& event) { return event.Wait(); }

absl::StatusOr<std::unique_ptr<BackendEvent>> Backend::UploadBeside(const float* host, Matrix to,
                                                                    const BackendEvent* after) {
  RETURN_IF_ERROR(CheckView("upload", "to", to));
  RETURN_IF_ERROR(CheckHostPointer("upload", host, to));
  if (to.size() == 0) return std::make_unique<Passed>();
  return DoUploadBeside(host, to, after);
}

absl::StatusOr<std::unique_ptr<BackendEvent>> Backend::DownloadBeside(ConstMatrix from,
                                                                      float* host) {
  RETURN_IF_ERROR(CheckView("download", "from", from));
  RETURN_IF_ERROR(CheckHostPointer("download", host, from));
  if (from.size() == 0) return std::make_unique<Passed>();
  return DoDownloadBeside(from, host);
}

absl::StatusOr<std::unique_ptr<HostPin>> Backend::Pin(float* host, int64_t num_elements) {
  RETURN_IF_ERROR(CheckHostPointer("pin", host, {host, 1, num_elements}));
  return std::make_unique<HostPin>();
}

absl::StatusOr<std::unique_ptr<BackendEvent>> Backend::DoUploadBeside(const float* host, Matrix to,
                                                                      const BackendEvent* after) {
  if (after != nullptr) RETURN_IF_ERROR(after->Wait());
  RETURN_IF_ERROR(DoUpload(host, to));
  return Record();
}

absl::StatusOr<std::unique_ptr<BackendEvent>> Backend::DoDownloadBeside(ConstMatrix from,
                                                                        float* host) {
  RETURN_IF_ERROR(DoDownload(from, host));
  return Record();
}

}  // namespace sangam
