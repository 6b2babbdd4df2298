#ifndef SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_
#define SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_

#include <cstdint>
#include <string>
#include <thread>

namespace sangam::testing {

// Listens on a port of the loopback interface; to each connection it says `answer`, whatever it
// hears, and keeps it open.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer);
  ~OneAnswer();
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const;

 private:
  void Serve();

  const std::string answer_;
  int listener_ = -1;
  int stop_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

// A port that nobody listens on.
uint16_t ClosedPort();

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_CLIENT_DOCTOR_ONE_ANSWER_H_
