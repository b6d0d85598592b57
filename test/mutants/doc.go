// Command mutants removes lines that defend the boundary between tenants, one at a
// time, and fails if no test notices.
//
// Two kinds of mutants: those of a table, each with the tests that must notice
// (table*.go), and those that general operators make of every condition of small
// packages with fast tests (operators.go). Both are built with an overlay
// ("go build -overlay"): the work tree stays as it is. It also fails if what the table
// replaces is no longer there, or a mutant does not compile.
//
//	make mutants
package main
