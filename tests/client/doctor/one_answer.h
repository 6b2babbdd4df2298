#ifndef SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_
#define SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_

#include <cstdint>
#include <string>
#include <thread>

namespace sangam::testing {

// Listens on a port of the loopback interface; to each connection it says `answer`, whatever it
// hears, and keeps it open. With `only_to` it says so to connections that begin with this sign, and
// hangs up on others.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, char only_to = 0);
  ~OneAnswer();
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const;

 private:
  void Serve();

  const std::string answer_;
  const char only_to_;
  int listener_ = -1;
  int stop_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

// A port that nobody listens on.
uint16_t ClosedPort();

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_
