// Package query reads what somebody searches for: filters and keywords. It also settles text:
// what is compared with what, whichever database compares it. It knows no rights and no database.
package query
