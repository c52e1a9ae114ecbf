// Result<T>: the value of a fallible function, or an Error that says what was given, what is allowed and what to do.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "pinch/assert.h"

namespace pinch {

/// What kind of fault an Error reports. The command line maps it to an exit code (apps/pinch/exit_code.h).
enum class ErrorCode {
  kInvalidArgument,  ///< the caller gave something that can never work
  kIllegal,          ///< well formed, but refused by a named rule (legality of a tactic)
  kNotFound,         ///< a named thing (file, tensor, tactic) does not exist
  kUnsupported,      ///< valid, but this build or machine cannot do it
  kCorrupt,          ///< a file or buffer breaks its format
  kIo,               ///< the operating system refused a read or a write
  kOutOfMemory,      ///< an allocation was refused
  kDevice,           ///< a device refused or broke off what it was given
  kInterrupted,      ///< the user stopped it (Ctrl-C)
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string text;   ///< what was given, what is allowed, what to do
  std::string where;  ///< file, tensor, byte offset or field it concerns; may be empty

  /// "where: text", or text alone where there is no place.
  [[nodiscard]] std::string message() const { return where.empty() ? text : where + ": " + text; }
};

/// Value of type T, or an Error. Test with ok(); value() and error() may be called only on the side that is held, and
/// stop the program on the other one (PINCH_ASSERT).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() & { return check_value(), *std::get_if<0>(&held_); }
  [[nodiscard]] const T& value() const& { return check_value(), *std::get_if<0>(&held_); }
  [[nodiscard]] T&& value() && { return check_value(), std::move(*std::get_if<0>(&held_)); }
  [[nodiscard]] const Error& error() const {
    PINCH_ASSERT(!ok(), "error() is called on a failure only");
    return *std::get_if<1>(&held_);
  }

  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  void check_value() const { PINCH_ASSERT(ok(), error().message().c_str()); }

  std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    PINCH_ASSERT(failed_, "error() is called on a failure only");
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace pinch

/// Returns the Error of a Result-valued expression from the enclosing function.
#define PINCH_TRY(expr)                                           \
  do {                                                            \
    if (auto pinch_try_result = (expr); !pinch_try_result.ok()) { \
      return pinch_try_result.error();                            \
    }                                                             \
  } while (false)

/// Declares `var` as the value of a Result-valued expression, or returns its Error.
#define PINCH_ASSIGN(var, expr)                        \
  auto var##_result = (expr);                          \
  if (!var##_result.ok()) return var##_result.error(); \
  auto& var = var##_result.value()
