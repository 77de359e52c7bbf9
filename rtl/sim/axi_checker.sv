// Rules of AXI4 at one port, for simulation and for proofs: what is offered stays until it is
// taken, every transaction is answered once, with as many beats as it asked for, and in the order
// of its ID. Rules that the master has to keep are MASTER_RULE, the others SLAVE_RULE.
`ifndef MASTER_RULE
`define MASTER_RULE assert
`define SLAVE_RULE assert
`endif
module axi_checker #(
    parameter int ADDR_W = 33,
    parameter int ID_W = 4,
    parameter int DATA_W = 64,
    parameter int MAX = 32  // Transactions of one ID that the checker can follow.
) (
    input logic clk,
    input logic rst,
    input logic awvalid,
    input logic awready,
    input logic [ID_W-1:0] awid,
    input logic [ADDR_W-1:0] awaddr,
    input logic [7:0] awlen,
    input logic [2:0] awsize,
    input logic [1:0] awburst,
    input logic wvalid,
    input logic wready,
    input logic [DATA_W-1:0] wdata,
    input logic [DATA_W/8-1:0] wstrb,
    input logic wlast,
    input logic bvalid,
    input logic bready,
    input logic [ID_W-1:0] bid,
    input logic [1:0] bresp,
    input logic arvalid,
    input logic arready,
    input logic [ID_W-1:0] arid,
    input logic [ADDR_W-1:0] araddr,
    input logic [7:0] arlen,
    input logic [2:0] arsize,
    input logic [1:0] arburst,
    input logic rvalid,
    input logic rready,
    input logic [ID_W-1:0] rid,
    input logic [DATA_W-1:0] rdata,
    input logic [1:0] rresp,
    input logic rlast
);
  localparam int IDS = 1 << ID_W;
  localparam int COUNT_W = $clog2(MAX + 1);

  // What waits at the end of the clock before.
  localparam int ADDRESS_W = ID_W + ADDR_W + 8 + 3 + 2;
  logic aw_waits, w_waits, b_waits, ar_waits, r_waits, started;
  logic [ADDRESS_W-1:0] aw_was, ar_was;
  logic [DATA_W+DATA_W/8:0] w_was;
  logic [ID_W+1:0] b_was;
  logic [ID_W+DATA_W+2:0] r_was;
  always_ff @(posedge clk) begin
    started <= !rst;
    aw_waits <= !rst && awvalid && !awready;
    w_waits <= !rst && wvalid && !wready;
    b_waits <= !rst && bvalid && !bready;
    ar_waits <= !rst && arvalid && !arready;
    r_waits <= !rst && rvalid && !rready;
    aw_was <= {awid, awaddr, awlen, awsize, awburst};
    w_was <= {wdata, wstrb, wlast};
    b_was <= {bid, bresp};
    ar_was <= {arid, araddr, arlen, arsize, arburst};
    r_was <= {rid, rdata, rresp, rlast};
  end

  // Reads: for each ID, the lengths of those that are not answered yet, and the beats of the first.
  logic [IDS*MAX*8-1:0] lengths;
  logic [IDS*COUNT_W-1:0] reads;
  logic [IDS*8-1:0] beats;
  logic [7:0] due;
  assign due = lengths[32'(rid)*MAX*8+:8];
  // Writes: lengths and IDs of those whose data are not complete, number of owed responses by ID.
  // Data may be offered before the address; the slaves here take them behind it or with it.
  logic [MAX*8-1:0] w_lengths;
  logic [COUNT_W-1:0] w_count;
  logic [7:0] w_beat;
  logic [MAX*ID_W-1:0] w_ids;
  logic [IDS*COUNT_W-1:0] owed;

  logic aw_now, w_now, w_ends, b_now, ar_now, r_now;
  assign aw_now = awvalid && awready;
  assign w_now = wvalid && wready;
  assign w_ends = w_now && wlast;
  assign b_now = bvalid && bready;
  assign ar_now = arvalid && arready;
  assign r_now = rvalid && rready;
  // The address of the data that come now.
  logic w_some;
  logic [7:0] w_length;
  logic [ID_W-1:0] w_id;
  assign w_some = w_count != '0 || aw_now;
  assign w_length = (w_count != '0) ? w_lengths[7:0] : awlen;
  assign w_id = (w_count != '0) ? w_ids[ID_W-1:0] : awid;

  logic [IDS-1:0] push, pop, w_push, b_pop;
  assign push = ar_now ? IDS'(1) << arid : '0;
  assign pop = (r_now && rlast) ? IDS'(1) << rid : '0;
  assign w_push = w_ends ? IDS'(1) << w_id : '0;
  assign b_pop = b_now ? IDS'(1) << bid : '0;
  always_ff @(posedge clk) begin
    for (int i = 0; i < IDS; i++) begin
      if (pop[i]) begin
        for (int k = 0; k < MAX - 1; k++)
          lengths[(i*MAX+k)*8+:8] <= lengths[(i*MAX+k+1)*8+:8];
      end
      for (int k = 0; k < MAX; k++) begin
        if (push[i] && 32'(reads[i*COUNT_W+:COUNT_W]) - 32'(pop[i]) == k)
          lengths[(i*MAX+k)*8+:8] <= arlen;
      end
      reads[i*COUNT_W+:COUNT_W] <= reads[i*COUNT_W+:COUNT_W] + COUNT_W'(push[i]) - COUNT_W'(pop[i]);
      if (r_now && 32'(rid) == i) beats[i*8+:8] <= rlast ? 8'd0 : beats[i*8+:8] + 8'd1;
      owed[i*COUNT_W+:COUNT_W] <= owed[i*COUNT_W+:COUNT_W]
          + COUNT_W'(w_push[i]) - COUNT_W'(b_pop[i]);
    end
    if (w_ends) begin
      for (int k = 0; k < MAX - 1; k++) begin
        w_lengths[k*8+:8] <= w_lengths[(k+1)*8+:8];
        w_ids[k*ID_W+:ID_W] <= w_ids[(k+1)*ID_W+:ID_W];
      end
    end
    for (int k = 0; k < MAX; k++) begin
      if (aw_now && 32'(w_count) - 32'(w_ends) == k) begin
        w_lengths[k*8+:8] <= awlen;
        w_ids[k*ID_W+:ID_W] <= awid;
      end
    end
    w_count <= w_count + COUNT_W'(aw_now) - COUNT_W'(w_ends);
    if (w_now) w_beat <= wlast ? 8'd0 : w_beat + 8'd1;
    if (rst) begin
      reads <= '0;
      beats <= '0;
      owed <= '0;
      w_count <= '0;
      w_beat <= '0;
    end
  end

  always_ff @(posedge clk) begin
    if (!rst && started) begin
      // Offers stay.
      if (aw_waits) `MASTER_RULE (awvalid && aw_was == {awid, awaddr, awlen, awsize, awburst});
      if (w_waits) `MASTER_RULE (wvalid && w_was == {wdata, wstrb, wlast});
      if (ar_waits) `MASTER_RULE (arvalid && ar_was == {arid, araddr, arlen, arsize, arburst});
      if (b_waits) `SLAVE_RULE (bvalid && b_was == {bid, bresp});
      if (r_waits) `SLAVE_RULE (rvalid && r_was == {rid, rdata, rresp, rlast});
      // The number of beats.
      if (w_now) `SLAVE_RULE (w_some);
      if (w_now) `MASTER_RULE (wlast == (w_beat == w_length));
      if (rvalid) `SLAVE_RULE (reads[rid*COUNT_W+:COUNT_W] != '0);
      if (rvalid) `SLAVE_RULE (rlast == (beats[rid*8+:8] == due));
      // A response only to a complete write.
      if (bvalid) `SLAVE_RULE (owed[bid*COUNT_W+:COUNT_W] != '0);
      // The checker can follow.
      if (ar_now) `MASTER_RULE (reads[arid*COUNT_W+:COUNT_W] != COUNT_W'(MAX));
      if (aw_now) `MASTER_RULE (w_count != COUNT_W'(MAX) && owed[awid*COUNT_W+:COUNT_W] != COUNT_W'(MAX));
    end
    if (!rst && !started) begin
      `MASTER_RULE (!awvalid && !wvalid && !arvalid);
      `SLAVE_RULE (!bvalid && !rvalid);
    end
  end
endmodule
