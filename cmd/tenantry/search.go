package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenantry/tenantry/internal/process"
	"github.com/tenantry/tenantry/internal/process/probes"
	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/standalone"
)

// searchFlags are the flags of a server that say where objects are stored, what decides rights, and how it is reached.
var searchFlags = map[string][]string{
	"etcd":           {"etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "encryption-provider-config", "encryption-provider-config-automatic-reload"},
	"secure serving": {"bind-address", "secure-port", "cert-dir", "tls-cert-file", "tls-private-key-file", "tls-cipher-suites", "tls-min-version"},
	"authentication": {"requestheader-client-ca-file", "requestheader-allowed-names"},
	"authorization":  {"authorization-mode", "authorization-config", "authorization-policy-file", "authorization-webhook-config-file"},
	"API enablement": {"runtime-config"},
	"generic":        {"feature-gates"},
	"logs":           nil,
}

// searchService is what the command is given.
type searchService struct {
	server         *server.Options
	search         search.Options
	tuning         process.Options
	metricsAddress string
}

func newSearchCommand() *cobra.Command {
	s := &searchService{server: server.NewOptions(), tuning: process.NewOptions()}
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Answer the searches of API servers",
		Long: `Answers searches over all resources of a space (tenantry find) for "tenantry
server --search-servers", by an index of the metadata of all objects. It follows
etcd, and writes nothing there.

Several replicas can run side by side with one PostgreSQL (--postgres-file): one
of them writes the index, and all answer. Without it, each has an index of its
own (--dir).

It needs the flags by which servers find etcd, decrypt what is stored, and
authorize, with the same values. It answers servers alone: those with a
certificate of --requestheader-client-ca-file, by --proxy-client-cert-file of
theirs. /readyz says whether the index is complete.`,
		Example: `  tenantry search --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt \
    --etcd-certfile=etcd.crt --etcd-keyfile=etcd.key \
    --requestheader-client-ca-file=front-proxy-ca.crt \
    --tls-cert-file=search.crt --tls-private-key-file=search.key \
    --postgres-file=postgres
  tenantry server --search-servers=https://search:6444 --search-ca-file=ca.crt ...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.addFlags(cmd.Flags())
	return cmd
}

func (s *searchService) addFlags(fs *pflag.FlagSet) {
	serving := s.server.Kube.SecureServing
	serving.BindPort, serving.ServerCert.CertDirectory = 6444, ""
	for name, set := range s.server.Flags().FlagSets {
		wanted, some := searchFlags[name]
		if some && wanted == nil {
			fs.AddFlagSet(set)
		}
		for _, flag := range wanted {
			fs.AddFlag(set.Lookup(flag))
		}
	}
	fs.StringVar(&s.search.Postgres, "postgres-file", "",
		"File with the connection string of a PostgreSQL, postgres://USER:PASSWORD@HOST/DATABASE, that has the index. It is read again for each connection.")
	fs.StringVar(&s.search.Dir, "dir", "", "Directory of an index of this process alone, instead of --postgres-file. An index that is there is continued if it can be, and made anew otherwise. Nothing else may be in it.")
	fs.StringSliceVar(&s.search.Annotations, "search-annotations", nil, "Annotations that are searched and shown, by their keys. By default there are none: many hold copies of whole objects.")
	fs.Var(&s.search.Properties, "search-property", searchPropertyHelp)
	fs.Int64Var(&s.search.Objects, "search-max-objects", search.DefaultObjects, searchObjectsHelp)
	fs.StringVar(&s.metricsAddress, "metrics-bind-address", "0", "Address of the metrics, 0 for none.")
	s.server.AddSearchFlags(fs)
	s.tuning.AddFlags(fs)
}

func (s *searchService) run(ctx context.Context) error {
	if err := s.tuning.Validate(); err != nil {
		return err
	}
	if (s.search.Postgres == "") == (s.search.Dir == "") {
		return errors.New("name where the index is: --postgres-file or --dir, and not both")
	}
	if made := s.server.Kube.SecureServing.ServerCert; made.CertKey.CertFile == "" && made.CertDirectory == "" {
		return errors.New("--tls-cert-file is missing: name the certificate that servers verify by --search-ca-file, or a --cert-dir, in whose apiserver.crt is one that is its own authority")
	}
	if err := logsapi.ValidateAndApply(s.server.Kube.Logs, nil); err != nil {
		return err
	}
	s.tuning.Apply(ctx)
	s.server.Search, s.server.SearchOnly = &s.search, true
	searches, err := standalone.NewSearch(ctx, s.server)
	if err != nil {
		return err
	}
	stop, err := serveMetrics(s.metricsAddress)
	if err != nil {
		return err
	}
	defer stop()
	return searches.Run(ctx)
}

// serveMetrics serves the metrics of the process until stop is called.
func serveMetrics(address string) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return probes.Listen("--metrics-bind-address", address, mux)
}

const searchObjectsHelp = "How many objects of a tenant are in the index of searches at most, 0 for any number. Of others it has the keys; searches that would show them are answered with 507."

const searchPropertyHelp = "Property of the objects of a resource that is searched and shown besides what kubectl prints, such as issuer=certificates.cert-manager.io:.spec.issuerRef.name. May be given several times."
