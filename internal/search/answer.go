package search

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
)

// Where a space is searched, below its root or as a short path.
const (
	Path        = "/search"
	GraphQLPath = "/searchapi/graphql"
)

// The parameters of a search.
const (
	ParameterQuery       = "q"
	ParameterLimit       = "limit"
	ParameterContinue    = "continue"
	ParameterMinRevision = "minRevision"
	ParameterOrderBy     = "orderBy"
	ParameterRelated     = "related"
)

// allKinds is the parameter for related objects of all kinds.
const allKinds = "*"

// How many items an answer has, if the caller does not say, and at most.
const (
	defaultLimit = 500
	MaxLimit     = 10_000
)

// The bounds of answers of all kinds, in bytes of JSON: so many may be in memory for each search that runs, a few times
// over. No more than that is read for one either, see index.MaxRead.
const (
	maxAnswer = index.MaxRead
	// maxEvent is that of an event of a subscription, which has an object twice.
	maxEvent = 4 << 20
)

var (
	errTooLarge = graphql.Refuse(fmt.Errorf("the answer has more than %d MiB; use more filters, or a smaller limit", maxAnswer>>20))
	errTooMuch  = graphql.Refuse(fmt.Errorf("more than %d MiB would have to be read for the answer; use more filters, or a smaller limit", index.MaxRead>>20))
)

// encoded returns an answer in JSON.
func encoded(answer any) (json.RawMessage, error) {
	text, err := json.Marshal(answer)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding an answer: %w", err))
	case len(text) > maxAnswer:
		return nil, errTooLarge
	}
	return text, nil
}

// Answer is the answer to a search.
type Answer struct {
	// Count is how many objects there are in all, on whatever page.
	Count int64 `json:"count"`
	// Items are in the order that was asked for, and then in that of space, resource, namespace and name.
	Items []Item `json:"items"`
	// Related are the objects related to those of Items, by their kind, if somebody has asked for them.
	Related []Related `json:"related,omitempty"`
	// Continue leads to the next page, empty if there is none.
	Continue string `json:"continue,omitempty"`
	// Revision is the one as of which the answer holds, or a later one.
	Revision int64 `json:"revision,string"`
	// Messages are for people.
	Messages []string `json:"messages,omitempty"`
}

// Related are related objects of one kind.
type Related struct {
	Kind string `json:"kind"`
	// Count is how many there are in all. Items are the first of them.
	Count int64  `json:"count"`
	Items []Item `json:"items"`
}

// Item is an object.
type Item struct {
	Space       string            `json:"space"`
	Namespace   string            `json:"namespace"`
	Kind        string            `json:"kind"`
	APIGroup    string            `json:"apigroup"`
	Resource    string            `json:"resource"`
	Name        string            `json:"name"`
	UID         string            `json:"uid,omitempty"`
	Created     *time.Time        `json:"created,omitempty"`
	Status      string            `json:"status,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Properties are what kubectl prints, and more, by their names. Some have several values.
	Properties map[string][]string `json:"properties,omitempty"`
	// Relations say how a related object is related: how it is to others of the answer, or others are to it.
	Relations []string `json:"relations,omitempty"`
}

func newItem(row *index.Row) Item {
	item := Item{
		Space: row.Space.String(), Namespace: row.Namespace, Kind: row.Kind, APIGroup: row.Resource.Group, Resource: row.Resource.Resource,
		Name: row.Name, UID: row.UID, Status: row.Status, Labels: row.Labels, Annotations: row.Annotations,
	}
	for _, p := range row.Properties {
		if item.Properties == nil {
			item.Properties = map[string][]string{}
		}
		item.Properties[p.Name] = append(item.Properties[p.Name], p.Value)
	}
	if row.Created != 0 {
		created := time.Unix(row.Created, 0).UTC()
		item.Created = &created
	}
	return item
}

// pairs returns KEY=VALUE of each, in the order of their keys.
func pairs(of map[string]string) []string {
	all := make([]string, 0, len(of))
	for _, key := range sortedKeys(of) {
		all = append(all, key+"="+of[key])
	}
	return all
}

func sortedKeys[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }

// joined returns several values as the console has them.
func joined(values []string) string { return strings.Join(values, "; ") }

// continued is what leads to the next page.
type continued struct {
	index.After
	Order query.Order
}

// newContinue returns what leads to the rows behind one. It says nothing that its reader has not
// seen, and what may be seen is decided for each page.
func newContinue(row *index.Row, order query.Order) string {
	encoded, _ := json.Marshal(continued{row.Place(), order}) // strings are always encoded
	return base64.RawURLEncoding.EncodeToString(encoded)
}

var errContinue = errors.New("the token is none of an answer to this search; leave it out to begin again")

func parseContinue(token string, order query.Order) (*index.After, error) {
	if token == "" {
		return nil, nil // from the beginning
	}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, errContinue
	}
	c := &continued{}
	if err := json.Unmarshal(decoded, c); err != nil {
		return nil, fmt.Errorf("%w: %w", errContinue, err)
	}
	if c.Order != order {
		return nil, errContinue
	}
	return &c.After, nil
}
