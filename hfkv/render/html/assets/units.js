// Numbers as people read them: what hfkv/render/units.py does, in integers.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const SHORT = {bfloat16: "bf16", float16: "fp16", float32: "fp32", float64: "fp64"};

function grouped(value) {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function threeDigits(value, unit) {
  for (const digits of [2, 1, 0]) {
    const scale = 10n ** BigInt(digits);
    const rounded = (2n * value * scale + unit) / (2n * unit);
    if (rounded >= 1000n && digits) continue;
    const part = (rounded % scale).toString().padStart(digits, "0");
    return digits ? `${grouped(rounded / scale)}.${part}` : grouped(rounded);
  }
}

function size(bytes) {
  let power = 0;
  while (power + 1 < BINARY.length
    && 2n * bytes >= 2n * 1024n ** BigInt(power + 1) - 1024n ** BigInt(power)) power++;
  const unit = 1024n ** BigInt(power);
  const exact = bytes % unit === 0n && bytes < 1000n * unit && (power === 1 || power === 2);
  const number = exact ? bytes / unit : power ? threeDigits(bytes, unit) : bytes;
  return `${number} ${BINARY[power]}`;
}

function percent(part, whole) {
  if (whole <= 0n) return "";
  const rounded = (200n * part + whole) / (2n * whole);
  return rounded === 0n && part > 0n ? "<1 %" : `${rounded} %`;
}

function ratio(value, other) {
  const number = threeDigits(value, other);
  return `${number.includes(".") ? number.replace(/0+$/, "").replace(/\.$/, "") : number}×`;
}

function plural(number, noun) {
  return `${grouped(number)} ${noun}${BigInt(number) === 1n ? "" : "s"}`;
}

function shortFormat(name) {
  return SHORT[name] ?? name;
}
