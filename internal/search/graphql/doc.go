// Package graphql reads and answers requests in GraphQL, by the schema of the console's search. It bounds what
// a request is before it is validated, and knows neither objects nor rights: a Root resolves the fields.
package graphql
