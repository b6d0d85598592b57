// Package yamltext says of YAML, before anybody decodes it, whether little of it could become much. Parsers
// expand aliases, so that some hundred kilobytes can become gigabytes, and bound their number but not
// what they stand for.
//
// It is a leaf, and allocates next to nothing.
package yamltext
