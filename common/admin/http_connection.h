#ifndef SANGAM_COMMON_ADMIN_HTTP_CONNECTION_H_
#define SANGAM_COMMON_ADMIN_HTTP_CONNECTION_H_

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "httplib.h"

namespace sangam {

// One accepted connection, as httplib reads and writes it. Bounded as a whole, which httplib's own
// is not: from its first byte to its last it has `deadline`, and of what the client sends at most
// `max_bytes` are read; beyond either it looks closed. Owns the socket, which does not block.
class HttpConnection final : public httplib::Stream {
 public:
  HttpConnection(int fd, std::string peer, absl::Duration deadline, size_t max_bytes);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool is_readable() const override { return Await(POLLIN); }
  bool is_writable() const override { return Await(POLLOUT); }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return fd_; }

 private:
  // Whether the socket is ready before the deadline.
  bool Await(short events) const;

  const int fd_;
  const std::string peer_;
  const absl::Duration until_;
  size_t left_;  // that may still be read from the client
  // httplib asks for one byte at a time.
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_ADMIN_HTTP_CONNECTION_H_
