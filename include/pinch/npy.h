// Reading and writing .npy files, one array each.
//
// Layout: "\x93NUMPY", a version, the header's length (2 bytes in version 1, 4 in 2 and 3), a Python dict literal with
// descr, fortran_order and shape, then the elements. Source: NumPy's numpy.lib.format. Refused by name, with the byte:
//
//   bad_magic              not a .npy file
//   unknown_version        other than 1.0, 2.0 and 3.0
//   truncated_header       the file ends inside the header
//   header_too_long        a header over 1 MiB
//   invalid_header         not a dict literal of those three keys
//   duplicate_key          a key appears twice
//   unsupported_dtype      big-endian, structured, object, text or an element type DType does not have
//   fortran_order          column-major data of more than one axis longer than 1
//   shape_overflow         sizes whose product or bytes pass 2^63 - 1
//   size_mismatch          more or fewer bytes than the shape needs
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "pinch/result.h"
#include "pinch/tensor.h"

namespace pinch {

class MappedFile;

/// A checked .npy file, mapped read only. Copies share the mapping; the view lives as long as any of them.
class NpyFile {
 public:
  /// Errors: kNotFound, kIo, kCorrupt by the names above, kUnsupported for unsupported_dtype and fortran_order.
  static Result<NpyFile> open(const std::string& path);

  /// Checks a file that lies in memory, which must outlive the result; `name` stands for the path in messages.
  static Result<NpyFile> parse(std::span<const std::byte> file, std::string name);

  [[nodiscard]] const TensorView& view() const { return view_; }

 private:
  NpyFile() = default;
  std::shared_ptr<const MappedFile> mapping_;  // null where parse() was given memory
  TensorView view_;
};

/// Writes a row-major array, which appears whole or not at all. Errors: kInvalidArgument where the bytes are not the
/// shape's or the target is not a file; kUnsupported for a type NumPy has not (BF16, the 8-bit and smaller floats);
/// kIo.
Result<void> write_npy(const std::string& path, const TensorView& tensor);

}  // namespace pinch
