# Of doxygen's XML: the values of enumerations without a word of documentation, which doxygen 1.9 does not warn of.
/<compoundname>/ { compound = text($0) }
/<memberdef kind="enum"/ { in_enum = 1; name = "" }
/<enumvalue / { in_value = 1; value = ""; documented = 0 }
/<name>/ {
  if (in_value) value = text($0)
  else if (in_enum && name == "") name = text($0)
}
/<para>/ { if (in_value) documented = 1 }
/<\/enumvalue>/ {
  if (!documented) print "enumeration value " compound "::" name "::" value " is not documented."
  in_value = 0
}
/<\/memberdef>/ { in_enum = 0 }

function text(line) {
  sub(/^[^>]*>/, "", line)
  sub(/<.*$/, "", line)
  return line
}
