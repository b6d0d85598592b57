# What the generated definitions say of quantities: text that the API server takes and no
# client can read would keep clients from all objects of the kind. Quantities have three
# decimals at most, and exponents of one or two digits.
s/^( *)pattern: \^\(\\\+\|-\)\?\(\(\[0-9\]\+\(.*numkMGTPE.*$/\1maxLength: 32\
\1pattern: ^[-+]?([0-9]+(\\.[0-9]{0,3})?|\\.[0-9]{1,3})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$/
