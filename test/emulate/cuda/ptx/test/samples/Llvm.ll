; Llvm.ptx is what LLVM makes of this: llc -mcpu=sm_80 -o Llvm.ptx Llvm.ll
target triple = "nvptx64-nvidia-cuda"
@parts = internal addrspace(3) global [256 x float] poison
@row_needs = addrspace(1) constant [3 x i64] [i64 4096, i64 1, i64 12], align 8
@weights = internal addrspace(4) constant [4 x float] [float 1.0, float 0.5, float 0.25, float 0.125]
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.copysign.f32(float, float)
declare float @llvm.rint.f32(float)
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)

; One block: y = the sum of all squares by a tree through shared memory, written by every thread in bf16; g = a weight.
define ptx_kernel void @row(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr %g, i64 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %t = zext i32 %tid to i64
  %nt = zext i32 %ntid to i64
  %some = icmp slt i64 %t, %n
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [%t, %entry], [%next, %loop]
  %s = phi float [0.0, %entry], [%sum, %loop]
  %p = getelementptr bfloat, ptr addrspace(1) %x, i64 %i
  %v = load bfloat, ptr addrspace(1) %p
  %f = fpext bfloat %v to float
  %sum = call float @llvm.fma.f32(float %f, float %f, float %s)
  %next = add i64 %i, %nt
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %mine = phi float [0.0, %entry], [%sum, %loop]
  %at = getelementptr [256 x float], ptr addrspace(3) @parts, i64 0, i64 %t
  store float %mine, ptr addrspace(3) %at
  br label %tree
tree:
  %width = phi i64 [%nt, %done], [%half, %joined]
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %half = lshr i64 %width, 1
  %lower = icmp ult i64 %t, %half
  br i1 %lower, label %add, label %joined
add:
  %o = add i64 %t, %half
  %op = getelementptr [256 x float], ptr addrspace(3) @parts, i64 0, i64 %o
  %a = load float, ptr addrspace(3) %at
  %b = load float, ptr addrspace(3) %op
  %ab = fadd float %a, %b
  store float %ab, ptr addrspace(3) %at
  br label %joined
joined:
  %goes = icmp ugt i64 %half, 1
  br i1 %goes, label %tree, label %write
write:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %total = load float, ptr addrspace(3) @parts
  %narrow = fptrunc float %total to bfloat
  %q = getelementptr bfloat, ptr addrspace(1) %y, i64 %t
  store bfloat %narrow, ptr addrspace(1) %q
  %which = and i64 %t, 3
  %wp = getelementptr [4 x float], ptr addrspace(4) @weights, i64 0, i64 %which
  %w = load float, ptr addrspace(4) %wp
  %gp = getelementptr float, ptr %g, i64 %t
  store float %w, ptr %gp
  ret void
}

; Vectors of bf16, eight at a time.
define ptx_kernel void @vectors(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  %p = getelementptr <8 x bfloat>, ptr addrspace(1) %x, i64 %t
  %a = load <8 x bfloat>, ptr addrspace(1) %p, align 16
  %f = fpext <8 x bfloat> %a to <8 x float>
  %m = fmul <8 x float> %f, <float 0.5, float 3.0, float 0.5, float 3.0, float 0.5, float 3.0, float 0.5, float 3.0>
  %b = fptrunc <8 x float> %m to <8 x bfloat>
  %q = getelementptr <8 x bfloat>, ptr addrspace(1) %y, i64 %t
  store <8 x bfloat> %b, ptr addrspace(1) %q, align 16
  ret void
}

; One function of f32 values and of i64 values: what row kernels are made of.
define ptx_kernel void @scalars(ptr addrspace(1) %x, ptr addrspace(1) %y, i64 %d) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  %xp = getelementptr float, ptr addrspace(1) %x, i64 %t
  %v = load float, ptr addrspace(1) %xp
  %scaled = fmul float %v, 0x3FF7154760000000
  %whole = call float @llvm.rint.f32(float %scaled)
  %rest = fsub float %scaled, %whole
  %int = fptosi float %whole to i32
  %biased = add i32 %int, 127
  %shifted = shl i32 %biased, 23
  %power = bitcast i32 %shifted to float
  %poly = call float @llvm.fma.f32(float %rest, float 0x3FE62E4300000000, float 1.0)
  %value = fmul float %poly, %power
  %negative = fcmp olt float %v, 0.0
  %root = call float @llvm.sqrt.f32(float %v)
  %chosen = select i1 %negative, float %value, float %root
  %signed = call float @llvm.copysign.f32(float %chosen, float %v)
  %quotient = sdiv i64 %t, %d
  %remainder = srem i64 %t, %d
  %mixed = add i64 %quotient, %remainder
  %number = sitofp i64 %mixed to float
  %result = fadd float %signed, %number
  %yp = getelementptr float, ptr addrspace(1) %y, i64 %t
  store float %result, ptr addrspace(1) %yp
  ret void
}
