// Package sessions runs programs for suites of Ginkgo, in processes of their own that can be
// killed. What fails, fails the spec or the node that asked for it.
package sessions
