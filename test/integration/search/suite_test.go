package search

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// Without SEARCH_DATABASE=postgres, the server searches itself. With it, two services do, with one PostgreSQL.

// The tenants of the suite, and a user of each besides its administrator.
const (
	acme    tenant.Name = "acme"
	globex  tenant.Name = "globex"
	initech tenant.Name = "initech"
	jane                = "jane"
)

const annotation = "example.com/about"

var tenantry *suite.Environment

func TestSearch(t *testing.T) { suite.Run(t, "Search") }

var _ = BeforeSuite(func(ctx SpecContext) {
	if os.Getenv("SEARCH_DATABASE") == "postgres" {
		startService(ctx)
	} else {
		tenantry = suite.Start(ctx, func(o *standalone.Options) {
			o.Server.Search = &search.Options{Annotations: []string{annotation}}
		})
	}
	tenantry.CreateTenants(ctx, acme, globex, initech)
	Eventually(func() error {
		_, err := try(ctx, tenantry.Config(acme), "", "")
		return err
	}).Should(Succeed())
}, NodeTimeout(suite.StartTimeout))

// try searches below the server of a config. minRevision is a resource version, or empty.
func try(ctx context.Context, config *rest.Config, query, minRevision string) (*search.Answer, error) {
	request := suite.Client(config).CoreV1().RESTClient().Get().AbsPath(search.Path).MaxRetries(0).
		Param(search.ParameterQuery, query).Param(search.ParameterLimit, strconv.Itoa(search.MaxLimit))
	if minRevision != "" {
		request.Param(search.ParameterMinRevision, minRevision)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // which has the message of a Status, as Raw has not
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	answer := &search.Answer{}
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, err
	}
	if answer.Count != int64(len(answer.Items)) {
		return nil, fmt.Errorf("%d items of %d", len(answer.Items), answer.Count)
	}
	return answer, nil
}

// find is try for what must succeed. It returns the names of what is found.
func find(ctx context.Context, config *rest.Config, query, minRevision string) []string {
	GinkgoHelper()
	answer, err := try(ctx, config, query, minRevision)
	Expect(err).NotTo(HaveOccurred())
	return namesIn(answer)
}

func namesIn(answer *search.Answer) []string {
	names := []string{}
	for _, item := range answer.Items {
		names = append(names, item.Name)
	}
	return names
}
