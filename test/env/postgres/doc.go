// Package postgres runs a PostgreSQL for tests, of Debian's package postgresql-15: below a temporary directory, on a
// loopback port, and as the unprivileged user that the package makes if the tests run as root.
package postgres
