// Package upstream runs Kubernetes' own end-to-end tests, whose binary is made of
// test/conformance/suite, and knows which of its conformance tests run where.
package upstream
