#include "common/rpc/write_pump.h"

#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "common/base/mutex.h"

namespace sangam {

void WritePump::Open() {
  {
    MutexLock lock(&mutex_);
    open_ = true;
    busy_ = true;
  }
  Pump();
}

void WritePump::Wake() {
  {
    MutexLock lock(&mutex_);
    woken_ = true;
    if (busy_ || !open_ || last_posted_) return;
    busy_ = true;
  }
  Pump();
}

void WritePump::OnWritten(bool ok) {
  if (!ok) {
    MutexLock lock(&mutex_);
    broken_ = true;
  }
  Pump();
}

void WritePump::Close(Rest rest) {
  {
    MutexLock lock(&mutex_);
    if (closing_ != Rest::kDrop) closing_ = rest;
    if (busy_ || !open_ || last_posted_) return;
    busy_ = true;
  }
  Pump();
}

void WritePump::Pump() {
  for (;;) {
    bool ask;
    {
      MutexLock lock(&mutex_);
      woken_ = false;
      ask = !broken_ && closing_ != Rest::kDrop;
    }
    if (ask) {
      if (const std::optional<grpc::ByteBuffer> message = port_->NextMessage()) {
        port_->PostWrite(*message);
        return;
      }
    }
    bool last;
    {
      MutexLock lock(&mutex_);
      // What woke the pump meanwhile came too late for the question above.
      if (ask && woken_) continue;
      busy_ = false;
      last = TakeLast();
    }
    if (last) port_->PostLast();
    return;
  }
}

bool WritePump::TakeLast() {
  if (!closing_.has_value() || last_posted_) return false;
  last_posted_ = true;
  return true;
}

}  // namespace sangam
