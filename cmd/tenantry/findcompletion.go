package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/search/query"
)

const (
	// completionTimeout is for how long a shell waits.
	completionTimeout = 3 * time.Second
	// maxCompletions is how many values a shell is given.
	maxCompletions = 200
)

// complete returns how a word of a query may go on: the names of properties that what was found by the words before it
// has, or the values that such a property has. The server says what there is among what the user may list.
func (o findFlags) complete(ctx context.Context, before []string, word string) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	const none = cobra.ShellCompDirectiveNoFileComp
	client, err := o.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	input, err := inputOf(strings.Join(before, " "))
	if err != nil {
		return nil, none
	}
	property, value, hasValue := strings.Cut(word, ":")
	if !hasValue {
		names, err := askFor[struct {
			SearchSchema struct{ AllProperties []string }
		}](ctx, client,
			"query q($query: SearchInput) { searchSchema(query: $query) }", map[string]any{"query": input})
		if err != nil {
			return nil, none
		}
		return beginning(names.SearchSchema.AllProperties, word, "", ":"), none | cobra.ShellCompDirectiveNoSpace
	}
	// What stands before the last value stays: others, and what compares.
	last := strings.LastIndexAny(value, ",!=<>") + 1
	if property == "label" || property == "annotation" { // whose values have a =
		last = strings.LastIndexAny(value, ",!") + 1
	}
	found, err := askFor[struct{ SearchComplete []string }](ctx, client,
		"query q($property: String!, $query: SearchInput) { searchComplete(property: $property, query: $query) }",
		map[string]any{"property": property, "query": input})
	if err != nil {
		return nil, none
	}
	return beginning(found.SearchComplete, value[last:], property+":"+value[:last], ""), none
}

// beginning returns those of all that begin with a text, between two others, without what a shell would divide.
func beginning(all []string, with, before, after string) []string {
	var found []string
	for _, one := range all {
		if strings.HasPrefix(one, with) && !strings.ContainsAny(one, " \t\n,\"'") && len(found) < maxCompletions {
			found = append(found, before+one+after)
		}
	}
	return found
}

// inputOf returns a query in the form that GraphQL takes.
func inputOf(text string) (map[string]any, error) {
	words, err := query.Split(text)
	if err != nil {
		return nil, err
	}
	keywords, filters := []string{}, []map[string]any{}
	for _, w := range words {
		if w.Property == "" {
			keywords = append(keywords, w.Values...)
		} else {
			filters = append(filters, map[string]any{"property": w.Property, "values": w.Values})
		}
	}
	return map[string]any{"keywords": keywords, "filters": filters}, nil
}

// askFor returns the data of the answer to a query in GraphQL.
func askFor[T any](ctx context.Context, client kubernetes.Interface, text string, variables map[string]any) (*T, error) {
	body, err := json.Marshal(map[string]any{"query": text, "variables": variables})
	if err != nil {
		return nil, err
	}
	encoded, err := client.CoreV1().RESTClient().Post().AbsPath(search.GraphQLPath).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data   *T
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(encoded, &answer); err != nil {
		return nil, err
	}
	if len(answer.Errors) > 0 || answer.Data == nil {
		return nil, fmt.Errorf("the server refuses the query: %v", answer.Errors)
	}
	return answer.Data, nil
}
