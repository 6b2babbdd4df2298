#ifndef SANGAM_TESTS_TESTING_RAW_HTTP_H_
#define SANGAM_TESTS_TESTING_RAW_HTTP_H_

#include <string>

#include "absl/time/time.h"

namespace sangam {

// A connection to a port of this machine that carries whatever bytes a test likes.
class RawConnection {
 public:
  // Connects to 127.0.0.1.
  explicit RawConnection(int port);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // False when the other end has closed.
  bool Write(const std::string& bytes);
  // All that comes until the other end closes, or `timeout` has passed.
  std::string ReadAll(absl::Duration timeout);
  // Whether it closes within `timeout`.
  bool IsClosedWithin(absl::Duration timeout);

 private:
  int fd_ = -1;
};

struct HttpAnswer {
  int status = 0;  // 0: no answer
  std::string headers;
  std::string body;
};

// One request, "GET /livez", that names `host`.
HttpAnswer Ask(int port, const std::string& method_and_path, const std::string& host = "localhost");

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_RAW_HTTP_H_
