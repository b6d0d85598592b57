// Package fake is a Keystone for unit tests: it logs in one account, and says of tokens what
// a test has told it. What Keystone really does is tested in test/keystone.
package fake
