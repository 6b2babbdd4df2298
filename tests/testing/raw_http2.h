#ifndef SANGAM_TESTS_TESTING_RAW_HTTP2_H_
#define SANGAM_TESTS_TESTING_RAW_HTTP2_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace sangam {

// A client that does what no gRPC library would: it may say nothing, or half of what it should. It
// answers settings and pings, and keeps to the windows. Not thread-safe; every call is bounded.
class RawHttp2 {
 public:
  // Connects to 127.0.0.1. Not connected: is_open() is false.
  explicit RawHttp2(int port);
  ~RawHttp2();
  RawHttp2(RawHttp2&& other) noexcept;
  RawHttp2(const RawHttp2&) = delete;
  RawHttp2& operator=(const RawHttp2&) = delete;

  // As far as it goes within a second.
  bool Send(const std::string& bytes);
  void SendPreface();
  // Begins a call, without a message: "/sangam.v1.JobService/GetCluster".
  void OpenCall(uint32_t stream, const std::string& method);
  // The five bytes in front of a message of this length.
  void BeginMessage(uint32_t stream, uint32_t length);
  // Some of the message, as the windows allow within `timeout`. Returns what was sent.
  int64_t SendBody(uint32_t stream, int64_t bytes, absl::Duration timeout);

  // Reads what comes, for `duration` or until the connection is closed.
  void Pump(absl::Duration duration);
  // Pumps until the connection is closed; how long that took from now, nothing: it was not.
  std::optional<absl::Duration> AwaitClose(absl::Duration timeout);

  // Of this end.
  uint16_t local_port() const;
  bool is_open() const { return fd_ >= 0; }
  bool has_settings() const { return has_settings_; }
  // Whether the stream was reset, or has ended.
  bool IsOver(uint32_t stream) const { return windows_.count(stream) == 0; }

 private:
  void Close();
  void OnFrame(int type, int flags, uint32_t stream, const std::string& body);

  int fd_ = -1;
  std::string buffer_;
  bool preface_sent_ = false;
  bool has_settings_ = false;
  int64_t connection_window_ = 65535;
  int64_t initial_window_ = 65535;
  std::map<uint32_t, int64_t> windows_;  // of the streams that are open
};

// Of a process, in bytes.
uint64_t ResidentBytes(pid_t pid);
uint64_t PeakResidentBytes(pid_t pid);

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_RAW_HTTP2_H_
