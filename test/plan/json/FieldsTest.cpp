// Fields.h names every field of every plan struct, and each survives a round trip through the file.
#include "plan/json/Fields.h"
#include "plan/json/PlanJson.h"

#include <gtest/gtest.h>
#include <utility>

namespace mgc::plan {
namespace {

// --- The number of fields of an aggregate: the most initializers it takes ----------------------------------

struct Anything {
  template <typename T> operator T() const;
};

template <typename T, size_t... I> constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything())...}; };
}
template <typename T, size_t N = 48> constexpr size_t fieldCount() {
  if constexpr (takes<T>(std::make_index_sequence<N>()))
    return N;
  else
    return fieldCount<T, N - 1>();
}

// --- A visitor that gives every field a value of its own, and counts ---------------------------------------

class Filler {
public:
  size_t next = 1;
  std::vector<std::string> wrong; // structs with a field that Fields.h does not name

  void fill(bool &value) { value = !value; }
  void fill(int64_t &value) { value = static_cast<int64_t>(1000 + next++); }
  void fill(uint64_t &value) { value = 0xffffffff00000000u + next++; }
  void fill(double &value) { value = 0.1 * static_cast<double>(next++); }
  void fill(std::string &value) { value = "text \"" + std::to_string(next++) + "\"\n"; }
  template <typename T> void fill(std::vector<T> &values) {
    values.resize(2);
    for (T &value : values)
      fill(value);
  }
  void fill(std::vector<Instruction> &values) {
    values.resize(std::variant_size_v<decltype(Instruction::body)>);
    body_ = 0;
    for (Instruction &value : values)
      fill(value);
  }
  template <typename T> void fill(std::map<std::string, T> &values) {
    fill(values["first"]);
    fill(values["second"]);
  }
  template <typename T> void fill(T &value) {
    if constexpr (std::is_enum_v<T>)
      value = static_cast<T>(next++ % (enumNames<T>.size() - 1) + 1);
    else
      fillObject(value);
  }

private:
  template <typename T> struct Object {
    Filler &filler;
    T &value;
    size_t count = 0;
    template <typename Member> void required(std::string_view, Member member) { optional("", member); }
    template <typename Member> void optional(std::string_view, Member member) {
      ++count;
      filler.fill(value.*member);
    }
    template <typename Member> void alternatives(std::string_view, const auto &names, Member member) {
      ++count;
      EXPECT_EQ(names.size(), std::variant_size_v<decltype(Instruction::body)>);
      filler.emplace(value.*member);
    }
  };
  template <typename... Ts> void emplace(std::variant<Ts...> &variant) {
    size_t alternative = 0, wanted = body_++;
    ((wanted == alternative++ ? fillObject(variant.template emplace<Ts>()) : void()), ...);
  }
  template <typename T> void fillObject(T &value) {
    Object<T> object{*this, value};
    fields(object, Of<T>());
    size_t expected = fieldCount<T>() - std::is_same_v<T, Plan>; // version stands in the header
    if (object.count != expected)
      wrong.push_back(std::string(typeid(T).name()) + ": " + std::to_string(object.count) + " of " +
                      std::to_string(expected));
  }
  size_t body_ = 0;
};

TEST(Fields, CountsFields) {
  EXPECT_EQ(fieldCount<Operand>(), 4u);
  EXPECT_EQ(fieldCount<Mesh>(), 2u);
  EXPECT_EQ(fieldCount<Gemm>(), 11u);
  EXPECT_EQ(fieldCount<Bucket>(), 12u);
}

TEST(Fields, NameEveryFieldAndAllComeBack) {
  Plan plan;
  Filler filler;
  filler.fill(plan);
  EXPECT_EQ(filler.wrong, std::vector<std::string>());
  Result<std::string> text = printPlan(plan);
  ASSERT_TRUE(text.isOk()) << text.status().message();
  Result<Plan> back = parsePlan(*text);
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_TRUE(*back == plan);
}

} // namespace
} // namespace mgc::plan
