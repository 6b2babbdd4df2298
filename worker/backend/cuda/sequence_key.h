#ifndef SANGAM_WORKER_BACKEND_CUDA_SEQUENCE_KEY_H_
#define SANGAM_WORKER_BACKEND_CUDA_SEQUENCE_KEY_H_

#include <string>
#include <type_traits>
#include <utility>

#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {

// All that a sequence of operations is told, as bytes: two sequences do the same where these are
// equal. Structures are added member by member, for the bytes between members may be anything.
class SequenceKey {
 public:
  template <typename T>
  void Add(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      AddMembers(value);
    }
  }

  // Leaves it empty.
  std::string Take() { return std::exchange(bytes_, std::string()); }

 private:
  template <typename... T>
  void AddAll(const T&... values) {
    (Add(values), ...);
  }

  void AddMembers(const Matrix& m) { AddAll(m.data, m.rows, m.cols); }
  void AddMembers(const ConstMatrix& m) { AddAll(m.data, m.rows, m.cols); }
  void AddMembers(const GemmArguments& g) {
    AddAll(g.a, g.transpose_a, g.b, g.transpose_b, g.c, g.accumulate, g.epilogue, g.bias);
  }
  void AddMembers(const AttentionShape& s) { AddAll(s.positions, s.heads); }
  void AddMembers(const Rotation& r) { AddAll(r.positions, r.heads, r.base, r.backward); }
  void AddMembers(const ImageShape& s) { AddAll(s.height, s.width, s.channels); }
  void AddMembers(const Window2d& w) {
    AddAll(w.kernel_height, w.kernel_width, w.stride, w.padding);
  }
  void AddMembers(const WindowShape& s) { AddAll(s.in, s.window, s.out_channels); }

  std::string bytes_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_SEQUENCE_KEY_H_
