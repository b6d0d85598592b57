package search

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/internal/search/index"
)

// Path is where a space is searched, below its root or as a short path.
const Path = "/search"

// The parameters of a search.
const (
	ParameterQuery       = "q"
	ParameterLimit       = "limit"
	ParameterContinue    = "continue"
	ParameterMinRevision = "minRevision"
)

// How many items an answer has, if the caller does not say, and at most.
const (
	DefaultLimit = 500
	MaxLimit     = 10_000
)

// Answer is the answer to a search.
type Answer struct {
	// Count is how many objects there are in all, on whatever page.
	Count int64 `json:"count"`
	// Items are in the order of resource, namespace and name.
	Items []Item `json:"items"`
	// Continue leads to the next page, empty if there is none.
	Continue string `json:"continue,omitempty"`
	// Revision is the one as of which the answer holds, or a later one.
	Revision int64 `json:"revision,string"`
	// Messages are for people.
	Messages []string `json:"messages,omitempty"`
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
}

func newItem(row *index.Row) Item {
	item := Item{
		Space: row.Space.String(), Namespace: row.Namespace, Kind: row.Kind, APIGroup: row.Resource.Group, Resource: row.Resource.Resource,
		Name: row.Name, UID: row.UID, Status: row.Status, Labels: row.Labels, Annotations: row.Annotations,
	}
	if row.Created != 0 {
		created := time.Unix(row.Created, 0).UTC()
		item.Created = &created
	}
	return item
}

// newContinue returns what leads to the rows behind one. It says nothing that its reader has not
// seen, and what may be seen is decided for each page.
func newContinue(row *index.Row) string {
	encoded, _ := json.Marshal(index.After{Resource: row.Resource.String(), Namespace: row.Namespace, Name: row.Name}) // strings are always encoded
	return base64.RawURLEncoding.EncodeToString(encoded)
}

var errContinue = errors.New("the token is none of an answer to this search; leave it out to begin again")

func parseContinue(token string) (*index.After, error) {
	if token == "" {
		return nil, nil //nolint:nilnil // from the beginning
	}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, errContinue
	}
	after := &index.After{}
	if err := json.Unmarshal(decoded, after); err != nil {
		return nil, fmt.Errorf("%w: %w", errContinue, err)
	}
	return after, nil
}
