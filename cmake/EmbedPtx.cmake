# cmake -DNAME=.. -DPTX=FILE -DOUTPUT=FILE -P: a C++ file that defines mgc::cuda::NAMEModule with the text of PTX.
file(READ "${PTX}" text)
file(WRITE "${OUTPUT}" "#include \"runtime/device/cuda/Internal.h\"
namespace mgc::cuda {
extern const OwnModule ${NAME}Module;
const OwnModule ${NAME}Module = {\"${NAME}\", R\"PTX(${text})PTX\"};
} // namespace mgc::cuda
")
