package main

import (
	"context"
	"io"
)

type quotaListCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`
	quotaTarget `embed:""`
}

// Help shows what can be asked for.
func (quotaListCmd) Help() string {
	return `A user or a client id narrows the list to the entities that it is part of.

  sluice quota list                          all
  sluice quota list --user alice             alice's, alone and with client ids
  sluice quota list --client-id-default      those of the default client id, alone and with users`
}

// Run prints the quotas that are set, one a line. With a user or a client id it is those whose entity has this part.
func (c *quotaListCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.connect(ctx, s)
	if err != nil {
		return err
	}
	defer client.Close()
	described, err := clientQuotas{client}.describe(ctx, c.entity())
	if err != nil {
		return err
	}
	return c.print(s.out, described, func(w io.Writer) {
		row(w, "FOR", "QUOTA", "LIMIT")
		for _, d := range described {
			for _, v := range d.sorted() {
				row(w, d, v.Key, number(v.Value))
			}
		}
	})
}
