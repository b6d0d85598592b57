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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/search"
)

// findFlags say what is asked, of whom, and how it is shown.
type findFlags struct {
	kubeconfig, output string
	orderBy            string
	related            []string
	limit              int
	minRevision        int64
}

func newFindCommand() *cobra.Command {
	o := findFlags{}
	cmd := &cobra.Command{
		Use:   "find QUERY",
		Short: "Find objects of all resources in a space",
		Long: `Finds the objects of all resources in a space, or in those that the filter space
names, that its user may list, and no others. The server needs "tenantry up --search".

A query has words: NAME:VALUE is a filter, anything else a keyword that some text
of the object must have, whatever its case. All of them must match. A filter is
about kind, apigroup, resource, namespace, name, created, label (label:KEY=VALUE),
annotation, condition (condition:Ready=False), image, owner, uid or space, or about
what kubectl prints, such as status, node, ready or restarts, and columns of custom
resources. VALUE may be several, divided by commas, of which one must match; * stands
for any text; with a ! before it, it must not match. Numbers and times are compared
by >, >=, < and <=; times may be hour, day, week, month or year for what is newer. In
double quotes, spaces and commas are text.

The shell completes names and values, of what the user may list, after the script that
the subcommand completion writes. As kubectl-tenantry in the PATH, tenantry is a plugin
of kubectl, which completes it with kubectl_complete-tenantry beside that.`,
		Example: `  tenantry find --kubeconfig acme.kubeconfig kind:pod 'status:!Running'
  tenantry find --kubeconfig acme.kubeconfig -o name label:app=web namespace:team-*
  tenantry find --kubeconfig acme.kubeconfig created:hour
  tenantry find --kubeconfig acme.kubeconfig 'restarts:>5' --order-by 'restarts desc'
  tenantry find --kubeconfig acme.kubeconfig kind:deployment name:web --related pod,service
  tenantry find --kubeconfig acme.kubeconfig -o json 'kind:!Event' postgres
  tenantry find --kubeconfig admin.kubeconfig space:acme,globex status:CrashLoopBackOff`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), strings.Join(args, " "), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the user, whose server is the root of the space. By default what kubectl takes.")
	fs.StringVar(&o.orderBy, "order-by", "", `Property by which objects are ordered, as PROPERTY or "PROPERTY desc". By default their resource, namespace and name.`)
	fs.StringSliceVar(&o.related, "related", nil, "Kinds of which related objects are shown, too; * is all of them.")
	fs.StringVarP(&o.output, "output", "o", "", "Form of the answer: json, yaml, name or wide. A table if empty.")
	fs.IntVar(&o.limit, "limit", 0, "How many objects are shown at most. 0 is all of them.")
	fs.Int64Var(&o.minRevision, "min-revision", 0, "Resource version of an object that the answer must not be older than.")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return o.complete(cmd.Context(), args, word)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(slices.Sorted(maps.Keys(shows))[1:], cobra.ShellCompDirectiveNoFileComp)) // the flag is there
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
	if o.minRevision < 0 {
		return fmt.Errorf("--min-revision is %d, and must not be negative", o.minRevision)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	found, err := o.find(ctx, client, query)
	if err != nil {
		return err
	}
	for _, message := range found.Messages {
		fmt.Fprintf(messages, "Warning: %s\n", message)
	}
	if found.Continue != "" {
		fmt.Fprintf(messages, "Warning: only the first %d objects are shown, and there are more: raise --limit\n", len(found.Items))
	}
	return show(out, found)
}

func (o findFlags) client() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
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
		for name, value := range map[string]string{
			search.ParameterContinue: token, search.ParameterOrderBy: o.orderBy, search.ParameterRelated: strings.Join(o.related, ","),
		} {
			if value != "" {
				request.Param(name, value)
			}
		}
		if o.minRevision > 0 {
			request.Param(search.ParameterMinRevision, strconv.FormatInt(o.minRevision, 10))
		}
		body, err := searched(request.Do(ctx))
		if err != nil {
			return nil, fmt.Errorf("searching: %w", err)
		}
		page := &search.Answer{}
		if err := json.Unmarshal(body, page); err != nil {
			return nil, errors.New("the server's answer is none to a search; is it a Tenantry with --search?")
		}
		all.Items = append(all.Items, page.Items...)
		all.Related = append(all.Related, page.Related...)
		all.Count, all.Revision, all.Messages, all.Continue = page.Count, page.Revision, page.Messages, page.Continue
		if token = page.Continue; token == "" || o.limit > 0 && len(all.Items) >= o.limit {
			return all, nil
		}
	}
}

// searched returns an answer, or what the server says instead: Raw alone would leave out the message of a Status.
func searched(result rest.Result) ([]byte, error) {
	switch err := result.Error(); {
	case apierrors.IsNotFound(err) && !isOfTenant(err):
		return nil, fmt.Errorf("%w; does the server run with --search?", err)
	case err != nil:
		return nil, err
	}
	return result.Raw()
}

func isOfTenant(err error) bool {
	status, is := errors.AsType[*apierrors.StatusError](err)
	return is && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "tenants"
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
	for _, items := range append([][]search.Item{a.Items}, relatedItems(a)...) {
		for i := range items {
			if _, err := fmt.Fprintf(out, "%s/%s\n", resourceOf(&items[i]), items[i].Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func relatedItems(a *search.Answer) [][]search.Item {
	var all [][]search.Item
	for i := range a.Related {
		all = append(all, a.Related[i].Items)
	}
	return all
}

func resourceOf(item *search.Item) string {
	if item.APIGroup == "" {
		return item.Resource
	}
	return item.Resource + "." + item.APIGroup
}

// showTable shows what was found and, below it, what is related to it.
func showTable(out io.Writer, a *search.Answer, wide bool) error {
	spaces := wide || slices.ContainsFunc(a.Items, func(item search.Item) bool { return item.Space != a.Items[0].Space })
	if err := showItems(out, a.Items, wide, spaces, false); err != nil {
		return err
	}
	related := slices.Concat(relatedItems(a)...)
	if len(related) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return showItems(out, related, wide, spaces, true)
}

func showItems(out io.Writer, items []search.Item, wide, spaces, related bool) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	columns := []string{"NAMESPACE", "KIND", "NAME", "STATUS", "AGE"}
	if related {
		columns = append([]string{"RELATION"}, columns...)
	}
	if wide {
		columns = append(columns, "APIGROUP", "LABELS")
	}
	if spaces {
		columns = append([]string{"SPACE"}, columns...)
	}
	fmt.Fprintln(table, strings.Join(columns, "\t"))
	for i := range items {
		item := &items[i]
		age := "<unknown>"
		if item.Created != nil {
			age = duration.HumanDuration(time.Since(*item.Created))
		}
		row := []string{item.Namespace, item.Kind, item.Name, item.Status, age}
		if related {
			row = append([]string{strings.Join(item.Relations, ",")}, row...)
		}
		if wide {
			row = append(row, item.APIGroup, labelsOf(item))
		}
		if spaces {
			row = append([]string{item.Space}, row...)
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
