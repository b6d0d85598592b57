// Package ratelimit bounds how much of something users of many keys have, each at a rate of its own. Nothing
// stays for who has had none of late. It must not decide what that is.
package ratelimit
