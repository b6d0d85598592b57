// Package until waits in unit tests for what happens in the background. Suites of Ginkgo have
// Eventually, and programs have harness.Until.
package until
