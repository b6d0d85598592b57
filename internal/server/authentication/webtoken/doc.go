// Package webtoken reads what JSON web tokens say, without verifying it: to find
// out who could verify a token, or what else a verified one says.
package webtoken
