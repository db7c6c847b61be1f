# Puts guards of one Rust source file behind a switch: the body of the function that holds a guard is
# there twice, and which of them runs is chosen when the program starts. For rustfmt's layout.
#
#   awk -v dir=DIR -v numbers="3 4" -f hack/guards.awk FILE
#
# DIR/N.find and DIR/N.put hold the text of guard N and what stands there without it. Prints the file;
# names guards that cannot be switched in DIR/fixed: they are not in the body of a function, or in that
# of one that is constant or gives a type without a name.
function slurp(path,    text, line) {
  text = ""
  while ((getline line < path) > 0) text = text line "\n"
  close(path)
  return text
}
function indent(line) { match(line, /^ */); return RLENGTH }
# The line in which the character at `at` is.
function line_at(at,    low, high, middle) {
  low = 1; high = NR
  while (low < high) {
    middle = int((low + high + 1) / 2)
    if (start[middle] <= at) low = middle; else high = middle - 1
  }
  return low
}
# Finds the innermost function whose body has lines a to b: sets `opens` and `closes`.
function enclose(a, b,    i, j, d) {
  for (i = a; i >= 1; i--) {
    if (lines[i] !~ /^ *(pub(\([a-z ]+\))? )?((async|const|unsafe) )*fn /) continue
    d = indent(lines[i])
    if (d >= indent(lines[a])) continue
    for (j = i; j <= NR && !(lines[j] ~ /\{$/ && indent(lines[j]) == d); j++);
    opens = j
    for (j = opens + 1; j <= NR && !(lines[j] ~ /^ *\}$/ && indent(lines[j]) == d); j++);
    closes = j
    if (closes <= b) continue
    for (j = i; j <= opens; j++)
      if (lines[j] ~ /const fn |-> impl /) return 0
    return opens < a
  }
  return 0
}
{ lines[NR] = $0; start[NR] = length(text) + 1; text = text $0 "\n" }
END {
  count = split(numbers, number, " ")
  for (g = 1; g <= count; g++) {
    n = number[g]
    find[n] = slurp(dir "/" n ".find"); put[n] = slurp(dir "/" n ".put")
    sub(/\n$/, "", find[n]); sub(/\n$/, "", put[n])
    at = index(text, find[n])
    if (enclose(line_at(at), line_at(at + length(find[n]) - 1))) {
      of[opens] = of[opens] " " n; end[opens] = closes
    } else print n >> (dir "/fixed")
  }
  for (i = 1; i <= NR; i++) {
    print lines[i]
    if (!(i in of)) continue
    body = ""
    for (j = i + 1; j < end[i]; j++) body = body lines[j] "\n"
    count = split(of[i], number, " ")
    for (g = 1; g <= count; g++) {
      n = number[g]
      at = index(body, find[n])
      printf "if crate::guard_is_away(%d) {\n%s%s%s} else ", n, substr(body, 1, at - 1), put[n], \
        substr(body, at + length(find[n]))
    }
    printf "{\n%s}\n", body
    i = end[i] - 1
  }
}
