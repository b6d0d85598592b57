// Package expression bounds what CEL expressions may take of the server, when they are evaluated and when they are
// compiled.
//
// Users of tenants write expressions (definitions, admission policies, match conditions), and
// all of them are evaluated in one process. Upstream charges a call after it was made, and by
// the number of elements of what it was given: s.replace('a', s) makes 100 GB of two strings of
// 300 kB, and lists of lists of the same list are compared for hours. Those who may write
// expressions are trusted upstream, and here they are not.
//
// Upstream makes every environment from one for all of Kubernetes, which [Bound] extends:
//
//   - Values are measured as if they were written out, before a call uses them
//     (size.go). Functions are given no more than maxBytes, and return no more.
//   - Where the work is a product, of a text and a pattern or of two lists, the product is
//     bounded (functions.go).
//   - Operators, for which upstream has nodes of its own, are planned anew (nodes.go).
//   - Calls with large values or results cost what these take (costs.go).
//   - Macros do not copy large parts of an expression (macros.go).
package expression
