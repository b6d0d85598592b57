package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/search"
)

// findFlags say what is asked, of whom, and how it is shown.
type findFlags struct {
	kubeconfig, output string
	limit              int
	minRevision        int64
}

func newFindCommand() *cobra.Command {
	o := findFlags{}
	cmd := &cobra.Command{
		Use:   "find QUERY",
		Short: "Find objects of all resources in a space",
		Long: `Finds the objects of all resources in a space that its user may list, and no
others. The server needs "tenantry up --search".

A query has words: NAME:VALUE is a filter, anything else a keyword that some text
of the object must have, whatever its case. All of them must match. A filter is
about kind, apigroup, resource, namespace, name, created, status, label
(label:KEY=VALUE), annotation, uid or space. VALUE may be several, divided by
commas, of which one must match; * stands for any text; with a ! before it, it must
not match. Times are compared by >, >=, < and <=, or are hour, day, week, month or
year for what is newer. In double quotes, spaces and commas are text.`,
		Example: `  tenantry find --kubeconfig acme.kubeconfig kind:pod 'status:!Running'
  tenantry find --kubeconfig acme.kubeconfig -o name label:app=web namespace:team-*
  tenantry find --kubeconfig acme.kubeconfig created:hour
  tenantry find --kubeconfig acme.kubeconfig -o json 'kind:!Event' postgres`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), strings.Join(args, " "), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the user, whose server is the root of the space. By default what kubectl takes.")
	fs.StringVarP(&o.output, "output", "o", "", "Form of the answer: json, yaml, name or wide. A table if empty.")
	fs.IntVar(&o.limit, "limit", 0, "How many objects are shown at most. 0 is all of them.")
	fs.Int64Var(&o.minRevision, "min-revision", 0, "Resource version of an object that the answer must not be older than.")
	return cmd
}

func (o findFlags) run(ctx context.Context, query string, out, messages io.Writer) error {
	show, ok := shows[o.output]
	if !ok {
		return fmt.Errorf("--output is %q, and must be one of %s", o.output, strings.Join(slices.Sorted(maps.Keys(shows))[1:], ", "))
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit is %d, and must not be negative", o.limit)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	found, err := o.find(ctx, client, query)
	if err != nil {
		return err
	}
	for _, message := range found.Messages {
		fmt.Fprintf(messages, "Warning: %s\n", message)
	}
	return show(out, found)
}

// find asks for one page after the other. What is created and deleted meanwhile may be on none.
func (o findFlags) find(ctx context.Context, client kubernetes.Interface, query string) (*search.Answer, error) {
	all := &search.Answer{Items: []search.Item{}}
	for token := ""; ; {
		limit := search.MaxLimit
		if o.limit > 0 {
			limit = min(limit, o.limit-len(all.Items))
		}
		request := client.CoreV1().RESTClient().Get().AbsPath(search.Path).
			Param(search.ParameterQuery, query).Param(search.ParameterLimit, strconv.Itoa(limit))
		if token != "" {
			request.Param(search.ParameterContinue, token)
		}
		if o.minRevision > 0 {
			request.Param(search.ParameterMinRevision, strconv.FormatInt(o.minRevision, 10))
		}
		body, err := request.Do(ctx).Raw() // which has the message of an error, unlike DoRaw
		if err != nil {
			return nil, fmt.Errorf("searching: %w", err)
		}
		page := &search.Answer{}
		if err := json.Unmarshal(body, page); err != nil {
			return nil, errors.New("the server's answer is none to a search; is it a Tenantry with --search?")
		}
		all.Items = append(all.Items, page.Items...)
		all.Count, all.Revision, all.Messages, all.Continue = page.Count, page.Revision, page.Messages, page.Continue
		if token = page.Continue; token == "" || o.limit > 0 && len(all.Items) >= o.limit {
			return all, nil
		}
	}
}

// shows are the forms of an answer, by the name that --output has for them.
var shows = map[string]func(io.Writer, *search.Answer) error{
	"":     func(out io.Writer, a *search.Answer) error { return showTable(out, a, false) },
	"wide": func(out io.Writer, a *search.Answer) error { return showTable(out, a, true) },
	"name": showNames,
	"json": func(out io.Writer, a *search.Answer) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(a)
	},
	"yaml": func(out io.Writer, a *search.Answer) error {
		encoded, err := yaml.Marshal(a)
		if err != nil {
			return err
		}
		_, err = out.Write(encoded)
		return err
	},
}

// showNames shows what kubectl takes: RESOURCE.GROUP/NAME.
func showNames(out io.Writer, a *search.Answer) error {
	for i := range a.Items {
		item := &a.Items[i]
		if _, err := fmt.Fprintf(out, "%s/%s\n", resourceOf(item), item.Name); err != nil {
			return err
		}
	}
	return nil
}

func resourceOf(item *search.Item) string {
	if item.APIGroup == "" {
		return item.Resource
	}
	return item.Resource + "." + item.APIGroup
}

func showTable(out io.Writer, a *search.Answer, wide bool) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	columns := []string{"NAMESPACE", "KIND", "NAME", "STATUS", "AGE"}
	if wide {
		columns = append([]string{"SPACE"}, append(columns, "APIGROUP", "LABELS")...)
	}
	fmt.Fprintln(table, strings.Join(columns, "\t"))
	for i := range a.Items {
		item := &a.Items[i]
		age := "<unknown>"
		if item.Created != nil {
			age = duration.HumanDuration(time.Since(*item.Created))
		}
		row := []string{item.Namespace, item.Kind, item.Name, item.Status, age}
		if wide {
			row = append([]string{item.Space}, append(row, item.APIGroup, labelsOf(item))...)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func labelsOf(item *search.Item) string {
	pairs := make([]string, 0, len(item.Labels))
	for _, key := range slices.Sorted(maps.Keys(item.Labels)) {
		pairs = append(pairs, key+"="+item.Labels[key])
	}
	return strings.Join(pairs, ",")
}
